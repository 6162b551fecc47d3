"""The floor under coverage bites: for lines as for branches, in each package, and for one that was not run at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.coverage_floor import FLOORS_PERCENT, main

PACKAGES = list(FLOORS_PERCENT)


def report(**changes: dict[str, int]) -> dict[str, Any]:
    """Two files a package, all of whose 2 x 100 lines and 2 x 100 branches ran but for what ``changes`` say."""
    whole = {"num_statements": 100, "covered_lines": 100, "num_branches": 100, "covered_branches": 100}
    files = {f"{package}/{name}.py": {"summary": whole} for package in PACKAGES for name in ("a", "b")}
    files |= {f"{package}/a.py": {"summary": whole | change} for package, change in changes.items()}
    return {"files": files}


def held(tmp_path: Path, found: dict[str, Any]) -> bool:
    path = tmp_path / "coverage.json"
    path.write_text(json.dumps(found), encoding="utf-8")
    return main(str(path)) == 0


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize(("key", "kind"), [("covered_lines", "lines"), ("covered_branches", "branches")])
def test_each_floor_bites(
    package: str, key: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at_the_floor = 100 - 2 * (100 - int(FLOORS_PERCENT[package]))
    assert held(tmp_path, report(**{package: {key: at_the_floor}}))
    assert "BELOW" not in capsys.readouterr().out
    assert not held(tmp_path, report(**{package: {key: at_the_floor - 1}}))
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "BELOW" in line]
    assert line.startswith(f"{package}: ")
    assert line.endswith(f"BELOW in {kind}")


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_that_was_not_run_is_below(package: str, tmp_path: Path) -> None:
    found = report()
    found["files"] = {file: seen for file, seen in found["files"].items() if not file.startswith(package)}
    assert not held(tmp_path, found)
