"""Errors that a person caused and can mend: one line, the thing and the remedy, exit status 2.

Everything else is a defect and keeps its traceback.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn

from stats.base.safe_text import SafeStream

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130  # 128 + SIGINT


class BenchError(Exception):
    """A run that must not go on (a figure above a physical limit, a wrong fragment): one line, exit status 1."""

    exit_status = EXIT_FAILED


class UserError(BenchError):
    """Bad input: the message names the thing and the remedy on one line; exit status 2."""

    exit_status = EXIT_BAD_INPUT


def choice(option: str, value: str | None, allowed: Iterable[str]) -> Any:
    """``value`` if it is one of ``allowed``, or None for an option not given. Raises UserError naming all of them."""
    names = list(allowed)
    if value is not None and value not in names:
        raise UserError(f"{option} {value!r}: choose from {', '.join(names)}")
    return value


def need_no_folder(path: Path, option: str = "") -> None:
    """Raises UserError for a folder where a file belongs; an empty name has become the folder "." by now."""
    before = f"{option} " if option else ""
    if path == Path():
        raise UserError(f"{before}'.': an empty name, or the folder here; give the name of a file")
    if path.is_dir():
        raise UserError(f"{before}{path}: is a folder; give the name of a file")


def reason(error: OSError | subprocess.SubprocessError) -> str:
    """Why a file or a program could not be used, in the system's words and without Python's."""
    if isinstance(error, subprocess.TimeoutExpired):
        return f"no answer after {error.timeout:g} s"
    return getattr(error, "strerror", None) or str(error)


def unreadable(path: Path, error: OSError) -> UserError:
    """The error to raise for a file that cannot be read."""
    need_no_folder(path)
    return UserError(f"{path}: cannot be read ({error.strerror})")


def need_out(resume: bool, out: object) -> None:
    """Raises UserError for ``--resume`` without the record that it continues."""
    if resume and out is None:
        raise UserError("--resume: there is no record to continue; name it with --out")


def run_module(module: str, prog_name: str) -> None:
    """Run ``main`` of a command's module, or say in one line which package is missing: ``python -m`` from a checkout.

    A missing part of the suite itself is a defect and keeps its traceback.
    """
    try:
        main: Callable[[], None] = importlib.import_module(module).main
    except ModuleNotFoundError as missing:
        if (missing.name or "").split(".")[0] in ("stats", "micro", "gemm"):
            raise
        say(f"{prog_name}: {missing.name} is not installed; make bench, or pip install -e .")
        sys.exit(EXIT_BAD_INPUT)
    main()


def say(line: str) -> None:
    """A line on stderr: broken at the width of the terminal that shows it, one line in a pipe or a file."""
    if sys.stderr.isatty():
        from stats.base.tables import wrapped

        with contextlib.suppress(ValueError, OSError):
            columns = os.environ.get("COLUMNS", "")
            line = wrapped(line, width=int(columns) if columns.isdigit() else os.get_terminal_size(2).columns)
    print(line, file=sys.stderr, flush=True)


def _ready_streams() -> None:
    """Where a stream is closed (``>&-``) nothing is said; what its encoding lacks is said with ``?``."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  # until the process ends
        elif isinstance(stream, io.TextIOWrapper) and (stream.encoding or "").lower().replace("-", "") != "utf8":
            stream.reconfigure(errors="replace")


def _reader_left() -> NoReturn:
    """The reader of a pipe left (``... | head``): not an error, and nobody is there to be told."""
    sys.stderr.close()
    sys.exit(0)


def run_app(app: Callable[..., Any], prog_name: str) -> None:
    """Run a typer application so that every expected failure is one line on stderr and a documented exit status.

    typer's own usage errors take several lines; here they take one, and point at ``--help``. What is printed meanwhile
    passes ``stats.base.safe_text``.
    """
    _ready_streams()
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = SafeStream(streams[0]), SafeStream(streams[1])
    try:
        _run(app, prog_name)
    finally:
        sys.stdout, sys.stderr = streams


def _run(app: Callable[..., Any], prog_name: str) -> NoReturn:
    import typer

    # typer has click inside or beside it, depending on its version; its one public exception leads to the others.
    usage_error: Any = typer.BadParameter.__bases__[0]
    click_exception: Any = usage_error.__bases__[0]
    command = typer.main.get_command(app)  # type: ignore[arg-type]
    try:
        status = command.main(prog_name=prog_name, standalone_mode=False)
        sys.stdout.flush()
    except typer.Abort:
        say(f"{prog_name}: interrupted")
        sys.exit(EXIT_INTERRUPTED)
    except typer.Exit as stop:
        status = stop.exit_code
    except usage_error as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # newer versions of click; its message is the whole help
            print(error.format_message(), file=sys.stderr)
            sys.exit(EXIT_BAD_INPUT)
        path = error.ctx.command_path if error.ctx is not None else prog_name
        say(f"{prog_name}: {' '.join(error.format_message().split())} (see {path} --help)")
        sys.exit(EXIT_BAD_INPUT)
    except click_exception as error:
        say(f"{prog_name}: {' '.join(error.format_message().split())}")
        sys.exit(EXIT_BAD_INPUT)
    except BenchError as error:
        say(f"{prog_name}: {' '.join(str(error).split())}")
        sys.exit(error.exit_status)
    except KeyboardInterrupt:
        say(f"{prog_name}: interrupted")
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        _reader_left()
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # typer and click make an exit status of 1 of it
            _reader_left()
        raise
    except OSError as error:
        if error.filename is not None:  # a name that is too long, a link to itself: what no check before foresaw
            say(f"{prog_name}: {error.filename}: {error.strerror}; choose another file or folder")
            sys.exit(EXIT_BAD_INPUT)
        if error.errno != errno.ENOSPC:
            raise
        with contextlib.suppress(OSError):
            sys.stdout.close()  # what is still in its buffer has no place, either
        say(f"{prog_name}: stdout: cannot be written ({error.strerror}); make room")
        sys.exit(EXIT_BAD_INPUT)
    if status == EXIT_INTERRUPTED:  # what newer versions of typer make of Ctrl+C, without a word
        say(f"{prog_name}: interrupted")
    sys.exit(status if isinstance(status, int) else 0)
