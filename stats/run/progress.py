"""What a run tells while it goes: a protocol of five calls, silence, and a bar on a terminal.

The bar appears only where stderr is a terminal; notes (a refused clock lock, another process on the GPU) are printed
on stderr either way, and stdout stays free for results. rich is imported only when a bar is drawn.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

from stats.base.safe_text import raw_stream, safe_text
from stats.record.schema import CellRow

if TYPE_CHECKING:
    from rich.progress import Progress as RichBar


_shown: list[Callable[[str], None]] = []  # of each bar of steps that is on the terminal, the innermost last


def doing(text: str) -> None:
    """Say beside the step what is under way within it, where a bar of steps is on the terminal."""
    if _shown:
        _shown[-1](text)


@contextmanager
def announced_steps(total: int, stream: TextIO | None = None) -> Iterator[Callable[[str], None]]:
    """A function to call at the start of each of ``total`` steps with what it is: a bar on a terminal, else nothing."""
    stream = stream if stream is not None else sys.stderr
    if not stream.isatty():
        yield lambda text: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichBar

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with RichBar(*columns, console=Console(file=raw_stream(stream)), transient=True) as bar:
        task = bar.add_task("starting", total=total, completed=-1)  # the first step begins, none is done

        now = ""

        def step(text: str) -> None:
            nonlocal now
            now = text
            bar.update(task, description=safe_text(text), advance=1)

        _shown.append(lambda text: bar.update(task, description=safe_text(f"{now}: {text}")))
        try:
            yield step
        finally:
            _shown.pop()


class Progress(Protocol):
    """What the runner calls, always from the thread that runs it."""

    def begin(self, cells: int, done: int) -> None:
        """The run will have ``cells`` cells, of which ``done`` come from an earlier part of it."""

    def status(self, text: str) -> None:
        """What is going on now."""

    def advance(self, row: CellRow) -> None:
        """One more cell is in the record."""

    def note(self, text: str) -> None:
        """Something that the user should know."""

    def end(self) -> None:
        """The run is over, in whatever way."""


class Silent:
    """Says nothing at all."""

    def begin(self, cells: int, done: int) -> None:
        """Say nothing."""

    def status(self, text: str) -> None:
        """Say nothing."""

    def advance(self, row: CellRow) -> None:
        """Say nothing."""

    def note(self, text: str) -> None:
        """Say nothing."""

    def end(self) -> None:
        """Say nothing."""


class TerminalProgress(Silent):
    """Notes on ``stream`` (stderr); a bar with the time left if that is a terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._bar: RichBar | None = None

    def begin(self, cells: int, done: int) -> None:
        """Draw the bar."""
        if not self._stream.isatty():
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichBar

        what = TextColumn("{task.description}", markup=False)
        columns = (what, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = RichBar(*columns, console=Console(file=raw_stream(self._stream)), transient=True)
        self._bar.add_task("starting", total=cells, completed=done)
        self._bar.start()

    def status(self, text: str) -> None:
        """Write ``text`` before the bar, or on a line while there is none (the first process may build for minutes)."""
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], description=safe_text(text))
        elif self._stream.isatty():
            self.note(text)

    def advance(self, row: CellRow) -> None:
        """Move the bar by one cell."""
        if self._bar is not None:
            self._bar.advance(self._bar.task_ids[0])

    def note(self, text: str) -> None:
        """Print ``text`` on a line of its own."""
        text = safe_text(text)
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            print(text, file=self._stream, flush=True)

    def end(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
