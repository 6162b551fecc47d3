"""Does the wheel hold just what it should, and does it work: in an empty environment, elsewhere, without writing?

The wheel is built from a copy of the tracked files and installed, with its dependencies and without torch, into a fresh
virtual environment. The trap: a checkout beside the tests would hide a missing file, so commands run in another folder.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.makers.report_records import micro_record, usual

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("stats", "micro", "gemm")

pytestmark = [
    pytest.mark.packaging,
    pytest.mark.slow,
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="which files belong to the project is git's to say"),
]


def tracked() -> list[str]:
    """Every file of the project as it is now, those not yet committed too, without what git ignores."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [name for name in names if (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in tracked():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, source / name)
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(out), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Package would be ignored" not in done.stdout + done.stderr
    (found,) = out.glob("*.whl")
    return found


def test_the_wheel_holds_just_what_it_should(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        info = {name.partition(".dist-info/")[2] for name in archive.namelist() if ".dist-info/" in name}
    packages = {name for name in tracked() if name.split("/")[0] in PACKAGES}
    configs = {f"stats/{name}" for name in tracked() if name.startswith("configs/")}
    assert names == packages | configs
    assert {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"} <= info
    assert {name.split("/")[0] for name in names} == set(PACKAGES)  # no tests, no results


@dataclass(frozen=True)
class Installed:
    """An environment with nothing but the wheel and what it depends on, and a folder that is no checkout."""

    bin: Path
    site: Path
    elsewhere: Path

    def run(self, name: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        usual = {"HOME": str(self.elsewhere), "PATH": os.environ["PATH"], "CUDA_VISIBLE_DEVICES": "", "COLUMNS": "200"}
        return subprocess.run(
            [str(self.bin / name), *arguments],
            cwd=self.elsewhere,
            env={**usual, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def files(self) -> dict[str, int]:
        return {str(path): path.stat().st_mtime_ns for path in self.site.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("empty")
    python = folder / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    usual(micro_record, elsewhere / "run.jsonl")
    text = "import micro, pathlib; print(pathlib.Path(micro.__file__).parents[1])"
    where = subprocess.run([str(python), "-c", text], capture_output=True, text=True, cwd=elsewhere, check=True)
    site = Path(where.stdout.strip())
    assert folder in site.parents
    for path in site.rglob("*"):  # a read-only install; root may write all the same, so times are compared, too
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~0o222)
    return Installed(python.parent, site, elsewhere)


def test_every_module_is_importable_without_torch(installed: Installed) -> None:
    text = (
        "import pkgutil, importlib, sys, gemm, micro, stats\n"
        "names = [m.name for p in (gemm, micro, stats) for m in pkgutil.walk_packages(p.__path__, p.__name__ + '.')]\n"
        "[importlib.import_module(name) for name in names if not name.endswith('__main__')]\n"
        "assert 'torch' not in sys.modules\n"
        "print(len(names))\n"
    )
    done = installed.run("python", "-W", "error", "-c", text)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100


def test_predictions_analysis_and_examination_work_elsewhere_and_write_nothing(installed: Installed) -> None:
    before = installed.files()
    predicted = installed.run("micro-bench", "--do-mma", "both", "--format", "json")
    assert predicted.returncode == 0, predicted.stderr
    here = subprocess.run(
        [sys.executable, "-m", "micro", "--do-mma", "both", "--format", "json"],
        cwd=installed.elsewhere,
        env={**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(predicted.stdout) == json.loads(here.stdout)
    shown = installed.run("bench-stats", "show", "run.jsonl")
    assert shown.returncode == 0, shown.stderr
    assert "Example GPU" in shown.stdout
    examined = installed.run("micro-bench", "doctor", "--json")
    assert examined.returncode == 0, examined.stdout + examined.stderr
    topics = {finding["topic"]: finding["status"] for finding in json.loads(examined.stdout)["findings"]}
    assert topics["torch"] == "warn"
    for command in ("micro-bench", "gemm-bench", "bench-stats"):
        assert installed.run(command, "--help").returncode == 0
    named = installed.run("gemm-bench", "--config", "no-such-name")
    assert "there are: a1-vs-a3, " in named.stderr
    assert installed.files() == before


def test_records_are_analysed_where_there_is_no_toolkit_and_no_compiler(installed: Installed) -> None:
    for arguments in (("show", "run.jsonl"), ("compare", "run.jsonl"), ("table", "run.jsonl")):
        done = installed.run("bench-stats", *arguments, PATH="/nonexistent")
        assert done.returncode in ((0, 1) if arguments[0] == "compare" else (0,)), done.stderr
        assert done.stdout
    refused = installed.run("gemm-bench", "--variants", "A3", PATH="/nonexistent", CUDA_HOME="/nonexistent")
    assert refused.returncode in (0, 2)  # /usr/local/cuda is looked at whatever PATH says
    assert refused.stderr.count("\n") <= 1
