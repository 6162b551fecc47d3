"""The record: what a run measured, one JSON object a line, so that every table can be computed again from it.

Line 1 is the header (what was run, where, from which sources). Every later line is one finished cell, one arm that
could not run, or one event of a process. Lines are only ever appended, each with one write, so a killed run keeps every
finished cell; a torn last line is reported and passed over. The trap: a record without its source hash cannot be
told from one of another kernel, so the header is not optional.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stats.base.errors import UserError, need_no_folder
from stats.record.reader import is_packed, read_record, record_bytes
from stats.record.schema import (
    CellRow,
    Header,
    ProcessRow,
    Record,
    SkipRow,
    without_nan,
)


def _refuse_place(path: Path) -> None:
    need_no_folder(path, "--out")
    if path.suffix == ".gz" or (path.is_file() and is_packed(path)):
        raise UserError(f"--out {path}: a record is written plain; give a name in .jsonl, and unpack what is to go on")


def check_writable(path: Path, needed_bytes: int = 0) -> None:
    """Raise UserError now, before GPU time is spent, if ``path`` exists or a file of this size cannot be made there."""
    _refuse_place(path)
    if path.exists() or path.is_symlink():
        raise UserError(f"{path}: exists already; choose another --out, or continue it with --resume")
    probe = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with probe.open("xb") as file:
            file.write(b"\0" * 4096)
        free_bytes = shutil.disk_usage(path.parent).free
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror}); choose another --out") from None
    finally:
        with contextlib.suppress(OSError):
            probe.unlink()
    if free_bytes < needed_bytes:
        raise UserError(
            f"{path}: the disk has {free_bytes / 1e6:.1f} MB free and the record needs about "
            f"{needed_bytes / 1e6:.1f} MB; make room or choose another --out"
        )


class RecordWriter:
    """Append-only writer of one record; each line is handed to the system in one write before ``append`` returns.

    ``path`` None keeps the rows in memory only. Raises UserError when the file cannot be written, before any GPU time
    is spent, and when it already exists (a record is never overwritten) unless ``resume`` is set; then the rows that
    it holds are read first, a torn last line is cut off, and ``header`` is not written again.
    """

    def __init__(self, path: Path | None, header: Header, *, resume: bool = False) -> None:
        self.path = path
        self.record = Record(header=header, path=path)
        self._fd: int | None = None
        if path is None:
            return
        going_on = resume and path.exists()
        self._open(path, os.O_RDWR | os.O_APPEND | (0 if going_on else os.O_CREAT | os.O_EXCL))
        try:
            if going_on:
                self.record = read_record(path)
                self._mend_last_line(path.read_bytes())
            else:
                self._write_line(header.model_dump(mode="json"))
        except UserError:
            self.close()
            if not going_on:
                path.unlink(missing_ok=True)  # an empty record would only be in the way of the next attempt
            raise

    def _open(self, path: Path, flags: int) -> None:
        _refuse_place(path)
        try:
            self._fd = os.open(path, flags | os.O_CLOEXEC, 0o666)
        except FileExistsError:
            raise UserError(f"{path}: exists already; choose another --out, or continue it with --resume") from None
        except OSError as error:
            raise UserError(f"{path}: cannot be written ({error.strerror}); choose another --out") from None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise UserError(f"{path}: another run is writing it; wait for it, or choose another --out") from None
        except OSError:
            return  # a file system without locks

    def _mend_last_line(self, whole: bytes) -> None:
        assert self._fd is not None
        if self.record.torn_line is not None:
            os.ftruncate(self._fd, whole.rfind(b"\n") + 1)
        elif not whole.endswith(b"\n"):
            self._write(b"\n")  # the row was complete, only its end of line was cut off

    def _write(self, line: bytes) -> None:
        if self._fd is None:
            return
        before = os.fstat(self._fd).st_size
        try:
            written = os.write(self._fd, line)
            if written < len(line):  # a disk that fills up takes a part first and fails at the next write
                os.write(self._fd, line[written:])
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, before)
            raise UserError(f"{self.path}: writing failed ({error.strerror}); the rows before it are kept") from None

    def _write_line(self, row: Mapping[str, Any]) -> None:
        self._write(json.dumps(without_nan(row), separators=(",", ":"), allow_nan=False).encode() + b"\n")

    def append(self, row: CellRow | SkipRow | ProcessRow) -> None:
        """Append one row; it is on its way to the disk when this returns."""
        kind = {CellRow: "cell", SkipRow: "skip", ProcessRow: "process"}[type(row)]
        self._write_line({"kind": kind, **vars(row)})
        self.record.add(row)

    def close(self) -> None:
        """Close the file; the rows stay readable through ``record``."""
        if self._fd is not None:
            with contextlib.suppress(OSError):  # a pipe or a device has nothing to sync
                os.fsync(self._fd)
            os.close(self._fd)
            self._fd = None

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_once_each(paths: Sequence[Path]) -> list[Record]:
    """The records, in their order. Raises UserError for a run that is there twice: it would count as two."""
    seen: dict[bytes, Path] = {}
    found = []
    for path in paths:
        found.append(read_record(path))
        first = seen.setdefault(hashlib.sha256(record_bytes(path)).digest(), path)
        if len(seen) < len(found):
            raise UserError(f"{first} and {path}: are the same run; give each run once")
    return found
