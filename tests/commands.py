"""A command of the project run in this process, as its console script would: one way for every test of one."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable

import pytest

Command = Callable[..., tuple[int, str, str]]
_PACKAGES = {"micro-bench": "micro", "gemm-bench": "gemm", "bench-stats": "stats"}


@pytest.fixture
def run_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """``run_command("gemm-bench", "--shape", "1x1x1")``: exit status, stdout and stderr."""

    def run(name: str, *arguments: object) -> tuple[int, str, str]:
        main = importlib.import_module(f"{_PACKAGES[name]}.cli").main
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main()
        said = capsys.readouterr()
        assert isinstance(stop.value.code, int)
        return stop.value.code, said.out, said.err

    return run


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without a GPU, whatever this one has."""
    monkeypatch.setattr("micro.device.cuda_device_count", lambda: 0)
