"""Every command of the three programs, found by walking them: a new one is in each test that asks here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import gemm.cli
import micro.cli
import stats.cli

PROGRAMS = {"micro-bench": micro.cli, "gemm-bench": gemm.cli, "bench-stats": stats.cli}


def _walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    if getattr(command, "callback", None) is not None:
        yield name, command
    for sub, below in getattr(command, "commands", {}).items():
        yield from _walk(f"{name} {sub}", below)


# "gemm-bench explain claims" -> the command with its parameters
COMMANDS: dict[str, Any] = {
    name: command
    for program, module in PROGRAMS.items()
    for name, command in _walk(program, typer.main.get_command(module.app))
}


class Shell:
    """Runs a command line in this process, as in a shell."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys

    def __call__(self, command: str, *arguments: str | Path) -> tuple[int, str, str]:
        """Exit status, stdout and stderr of ``command`` ("micro-bench contention") with ``arguments``."""
        program, *subcommands = command.split()
        self.monkeypatch.setattr(sys, "argv", [program, *subcommands, *map(str, arguments)])
        self.capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            PROGRAMS[program].main()
        told = self.capsys.readouterr()
        return int(stop.value.code or 0), told.out, told.err
