"""Does progress show on a terminal alone, and are notes told either way?"""

from __future__ import annotations

import io
import re

import pytest

from stats.run.progress import Silent, TerminalProgress
from tests.makers.rows import cell


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def play(progress: Silent) -> None:
    progress.status("process 1 of 2: starting")
    progress.begin(10, 4)
    progress.status("process 1 of 2")
    for _ in range(3):
        progress.advance(cell())
    progress.note("clocks: lock refused [not a style]")
    progress.end()
    progress.note("after the end")
    progress.end()


def test_away_from_a_terminal_only_notes_are_told() -> None:
    stream = io.StringIO()
    play(TerminalProgress(stream))
    assert stream.getvalue() == "clocks: lock refused [not a style]\nafter the end\n"


def test_on_a_terminal_there_is_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    stream = Terminal()
    play(TerminalProgress(stream))
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    assert shown.startswith("process 1 of 2: starting\n")
    assert "7/10" in shown
    assert "clocks: lock refused [not a style]" in shown
    assert shown.endswith("after the end\n")


def test_it_speaks_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    play(TerminalProgress())
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "after the end" in captured.err


def test_silence(capsys: pytest.CaptureFixture[str]) -> None:
    play(Silent())
    assert capsys.readouterr() == ("", "")
