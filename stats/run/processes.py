"""How the parent starts a fresh process, asks it for one answer at a time, and never waits for ever.

A request ends with an answer, with the death of the process, with a signal to the parent, or when its time is up.
Signals only set a note and wake the wait, so none of them can tear a row of the record. The trap: a "spawn" child is an
interpreter of its own, with children of its own (compilers); it is stopped with its whole process group and always
waited for.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from types import FrameType, ModuleType
from typing import Any

from stats.run import worker

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_GRACE_S = 3.0  # between asking a process to end and killing it


class Interrupted(Exception):  # noqa: N818 - an event, not an error
    """The parent received a signal."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class ProcessDied(Exception):  # noqa: N818
    """The process ended without an answer; the text says how."""


class NoAnswer(Exception):  # noqa: N818
    """The process did not answer in time."""


class SignalWatch:
    """Context in which SIGINT, SIGTERM and SIGHUP are noted in ``number`` and wake every ``wait`` that includes this.

    Only the main thread can do so; elsewhere, and for a signal that is ignored (``nohup``), nothing is changed.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._previous: dict[int, Any] = {}

    def fileno(self) -> int:
        """The descriptor that becomes readable with the first signal."""
        return self._read

    def __enter__(self) -> SignalWatch:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        os.close(self._read)
        os.close(self._write)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.number is None:
            self.number = number
        with contextlib.suppress(BlockingIOError):
            os.write(self._write, b"!")

    def check(self) -> None:
        """Raise Interrupted if a signal has come."""
        if self.number is not None:
            raise Interrupted(self.number)


class FreshProcess:
    """One "spawn" process that serves the arms of a pickled factory (see ``stats.run.worker``).

    ``with_main`` has it import the script that is running first, which only a factory that lives there needs;
    ``preload`` names modules that it imports while it waits for its factory.
    """

    def __init__(self, watch: SignalWatch, *, with_main: bool, preload: Sequence[str] = ()) -> None:
        context = multiprocessing.get_context("spawn")
        self._watch = watch
        # The tracker would unblock SIGINT and SIGTERM if it first started inside Process.start().
        resource_tracker.ensure_running()
        ours, theirs = context.Pipe()
        self._pipe = ours
        self._process = context.Process(target=worker.serve, args=(theirs, tuple(preload)), name="smem-bench trial")
        self._released = False
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            with contextlib.nullcontext() if with_main else _no_main_script():
                self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            theirs.close()
        self.pid = self._process.pid or 0

    def request(self, message: bytes | str, timeout_s: float) -> Any:
        """Send ``message`` (bytes: the pickled factory; text: an arm's name) and return the answer.

        Raises Interrupted, ProcessDied or NoAnswer (after ``timeout_s``).
        """
        self._watch.check()
        try:
            if isinstance(message, bytes):
                self._pipe.send_bytes(message)
            else:
                self._pipe.send(message)
        except OSError:
            raise ProcessDied(self._how_it_ended()) from None
        ready = wait([self._pipe, self._process.sentinel, self._watch.fileno()], timeout_s)
        self._watch.check()
        if self._pipe in ready:
            try:
                return self._pipe.recv()
            except (EOFError, OSError):
                raise ProcessDied(self._how_it_ended()) from None
        if ready:
            raise ProcessDied(self._how_it_ended())
        raise NoAnswer(f"no answer within {timeout_s:g} s")

    def finish(self, timeout_s: float) -> str:
        """Let the process close its arms and end; say what went wrong with that, or nothing."""
        with contextlib.suppress(OSError):
            self._pipe.send(None)
        if self._process.sentinel in wait([self._process.sentinel, self._watch.fileno()], timeout_s):
            self._process.join(_GRACE_S)  # its pipe closes a moment before it can be waited for
        how = ""
        if self._process.is_alive():
            # A signal to the parent cuts the waiting short; that says nothing about this process.
            how = "" if self._watch.number is not None else f"did not end within {timeout_s:g} s of its last cell"
        elif self._process.exitcode != 0:
            how = f"{self._how_it_ended()} after its last cell"
        self.kill()
        return how

    def kill(self) -> None:
        """End the process and all that it started, and wait for it; harmless if it has ended already."""
        if self._released:
            return
        self._released = True
        if self._process.is_alive():
            self._signal_group(signal.SIGTERM)
            wait([self._process.sentinel], _GRACE_S)
            # Before it is waited for, its number cannot belong to anybody else.
            self._signal_group(signal.SIGKILL)
        self._pipe.close()
        self._process.join()
        self._process.close()

    def _signal_group(self, number: int) -> None:
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            # It has not made its group yet.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _how_it_ended(self) -> str:
        self._process.join(_GRACE_S)
        code = self._process.exitcode
        if code is None:
            return "closed its pipe without an answer"
        if code < 0:
            return f"died by {signal.Signals(-code).name}"
        return f"ended with status {code}"


@contextlib.contextmanager
def _no_main_script() -> Iterator[None]:
    """Hide the running script from multiprocessing, which would import it (and all that it imports) in the child."""
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script
