"""A command of the project run in this process, as its console script would; and all of them, found by walking."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import typer

import gemm.cli.app
import micro.cli.app
import stats.cli.app

Command = Callable[..., tuple[int, str, str]]
PROGRAMS = {"micro-bench": micro.cli.app, "gemm-bench": gemm.cli.app, "bench-stats": stats.cli.app}


def _walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    if getattr(command, "callback", None) is not None:
        yield name, command
    for sub, below in getattr(command, "commands", {}).items():
        yield from _walk(f"{name} {sub}", below)


# "gemm-bench explain claims" -> the command with its parameters: a new one is in each test that asks here
COMMANDS: dict[str, Any] = {
    name: command
    for program, module in PROGRAMS.items()
    for name, command in _walk(program, typer.main.get_command(module.app))
}


@pytest.fixture
def run_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """``run_command("gemm-bench explain", "--arch", 80)``: exit status, stdout and stderr."""

    def run(command: str, *arguments: object) -> tuple[int, str, str]:
        program, *subcommands = command.split()
        monkeypatch.setattr(sys, "argv", [program, *subcommands, *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            PROGRAMS[program].main()
        said = capsys.readouterr()
        assert isinstance(stop.value.code, int)
        return stop.value.code, said.out, said.err

    return run


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without a GPU, whatever this one has."""
    monkeypatch.setattr("micro.gpu.device.cuda_device_count", lambda: 0)
