"""What the commands that measure, read a record or predict have in common at the edge, without a GPU."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from micro.gpu import device
from stats.base.errors import run_app

BAD = {
    "format": (["--format", "xml"], "choose from table, md, csv, json"),
    "config name": (["--config", "nowhere"], "no such name"),
    "record": (["--record", "absent.jsonl"], "cannot be read"),
    "record and out": (["--record", "a.jsonl", "--out", "b.jsonl"], "measures nothing"),
    "record and config": (["--record", "a.jsonl", "--config", "contention"], "--config would change nothing"),
    "record and device": (["--record", "a.jsonl", "--device", "1"], "--device would change nothing"),
    "record and resume": (["--record", "a.jsonl", "--resume"], "--resume would change nothing"),
    "out without gpu": (["--out", "b.jsonl"], "no CUDA device"),
    "device": (["--device", "-1"], "Invalid value for '--device': "),
    "resume alone": (["--resume"], "--resume: there is no record to continue"),
}


class Edge:
    """One command of ``micro-bench`` on a machine without a GPU; ``call`` gives its exit status."""

    def __init__(
        self,
        register: Callable[[typer.Typer], None],
        name: str,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        self.register, self.name, self.monkeypatch, self.capsys = register, name, monkeypatch, capsys

    def call(self, *arguments: str) -> int:
        app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        app.callback()(lambda: None)
        self.register(app)
        self.monkeypatch.setattr(sys, "argv", ["micro-bench", self.name, *arguments])
        self.monkeypatch.setattr(device, "cuda_device_count", lambda: 0)
        with pytest.raises(SystemExit) as stop:
            run_app(app, "micro-bench")
        return int(stop.value.code or 0)

    def refuses(self, arguments: list[str], expected: str, folder: Path) -> None:
        """One line, status 2, and nothing left in ``folder``, where it ran."""
        self.monkeypatch.chdir(folder)
        assert self.call(*arguments) == 2
        captured = self.capsys.readouterr()
        assert captured.out == ""
        assert captured.err.count("\n") == 1
        assert expected in captured.err
        assert list(folder.iterdir()) == []

    def refuses_config(self, text: str, expected: str, folder: Path) -> None:
        """One line that names the file and ``expected``."""
        path = folder / "mine.yaml"
        path.write_text(text + "\n")
        assert self.call("--config", str(path)) == 2
        error = self.capsys.readouterr().err
        assert error.count("\n") == 1
        assert str(path) in error
        assert expected in error
