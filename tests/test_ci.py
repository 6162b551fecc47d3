"""What CI runs as a newcomer's commands are the commands that the README gives a newcomer."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def untried(readme: str, ci: str) -> list[str]:
    """Commands of the README's first block that has any, which are no line of .ci/run before torch comes in."""
    blocks = re.findall(r"^```\w*\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    commands = next(filter(None, (re.findall(r"^make [a-z-]+", block, re.MULTILINE) for block in blocks)))
    assert len(commands) == 2
    lines = ci.split("import torch")[0].splitlines()
    return [command for command in commands if command not in lines]


def test_ci_runs_the_commands_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert untried(readme, ci) == []
    assert untried(readme.replace("make bench", "make measure"), ci) == ["make measure"]
    assert untried(readme, ci.replace("make test\n", "make test-all\n")) == ["make test"]
