"""How a record is read back, and what is said of one that is torn, foreign, newer or damaged.

A last line without its end was being written when the run was killed: it is noted and passed over. Any other
line that is no row of a record is an error naming file and line: a figure that silently lost cells is worse than none.
A record that was packed with gzip is read as it is. The traps: JSON gives integers of any size and nesting of any
depth, neither of which may end in a traceback; and of a key that is given twice, it silently takes the second.
"""

from __future__ import annotations

import gc
import gzip
import io
import json
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, get_args

from pydantic import ValidationError

from stats.base.errors import UserError, unreadable
from stats.base.plain_words import fault, quoted
from stats.record.schema import (
    LARGEST_COUNT,
    SCHEMA_VERSION,
    CellRow,
    Header,
    ProcessEvent,
    ProcessRow,
    Record,
    SkipRow,
)

_HEADER_START = '{"kind":"header"'  # as the writer writes it; what starts otherwise is a file of something else
_REMEDY = "give a .jsonl that a run wrote with --out"
_POSITIVE = ("time_ns", "sm_cycles", "clock_mhz")  # or null: not measured
_NAN_FIELDS = ("temperature_c", "power_w", "nvml_clock_mhz", "started_s")
_COUNTS = ("process", "block", "position", "attempt")
_SMALLEST_POSITIVE, _LARGEST_FIGURE = 1e-9, 1e100  # ratios and squares of what lies between are still numbers
_CELL_FIELDS = CellRow.__dataclass_fields__.keys()
_EVENTS = frozenset(get_args(ProcessEvent))
_GZIP, _UTF8_MARK = b"\x1f\x8b", b"\xef\xbb\xbf"
_OTHER_MARKS = {b"\xff\xfe": "UTF-16 or UTF-32", b"\xfe\xff": "UTF-16", b"\0\0\xfe\xff": "UTF-32"}
_MOST_BYTES = 1 << 30  # a few kB of gzip can hold more than a machine has memory
_Row = TypeVar("_Row", CellRow, SkipRow, ProcessRow)


class _GivenTwiceError(ValueError):
    """A key that stands twice in a mapping: JSON as such, and no record."""


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _GivenTwiceError(f"key {quoted(next(key for key in keys if keys.count(key) > 1))} is given twice")
    return found


# json.loads looks at its arguments and at white space on each of 100,000 lines
_DECODER = json.JSONDecoder(object_pairs_hook=_each_once)


def _integer(row: Mapping[str, Any], name: str, lowest: int) -> None:
    if name in row and (type(row[name]) is not int or not lowest <= row[name] <= LARGEST_COUNT):
        raise ValueError(f"{name} is {quoted(row[name])}, not an integer from {lowest} to {LARGEST_COUNT}")


def _text(row: Mapping[str, Any], *names: str) -> None:
    for name in names:
        if type(row.get(name, "")) is not str:
            raise ValueError(f"{name} is {quoted(row[name])}, not text")


def _figure(value: Any) -> float:
    if value is None:
        return math.nan
    if type(value) not in (int, float):
        raise ValueError(f"{quoted(value)} is not a number")
    if _LARGEST_FIGURE < abs(value) < math.inf:
        raise ValueError(f"{quoted(value)} is beyond anything that was measured")
    return float(value)


def _positive(name: str, value: Any) -> float:
    figure = _figure(value)
    if value is not None and not _SMALLEST_POSITIVE <= figure < math.inf:
        raise ValueError(f"{name} is {quoted(value)}, not a finite number above 0; null where it was not measured")
    return figure


def _made(kind: type[_Row], row: dict[str, Any]) -> _Row:
    known = kind.__dataclass_fields__
    for name in row:
        if name not in known:
            raise ValueError(f"unknown field {quoted(name)}")
    for name, field in known.items():
        if name not in row and field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"field {name} is missing")
    return kind(**row)


def _cell(row: dict[str, Any]) -> CellRow:
    # A record has up to some 100,000 of these: what is as it should be takes the short way.
    for name in _POSITIVE:
        if type(row.get(name)) is not float or not _SMALLEST_POSITIVE <= row[name] <= _LARGEST_FIGURE:
            row[name] = _positive(name, row.get(name))
    for name in _NAN_FIELDS:
        if type(row.get(name)) is not float or abs(row[name]) > _LARGEST_FIGURE:
            row[name] = _figure(row.get(name))
    for name in _COUNTS:
        if type(row.get(name, 0)) is not int or not 0 <= row.get(name, 0) <= LARGEST_COUNT:
            _integer(row, name, 0)
    _integer(row, "launches", 1)
    _integer(row, "other_processes", -1)
    reasons = row.get("throttle_reasons", [])
    if type(reasons) is not list or any(type(reason) is not str for reason in reasons):
        raise ValueError(f"throttle_reasons is {quoted(reasons)}, not a list of names")
    row["throttle_reasons"] = tuple(reasons)
    values = row.get("values")
    if values and type(values) is not dict:
        raise ValueError(f"values is {quoted(values)}, not figures by name")
    row["values"] = {key: _figure(value) for key, value in values.items()} if values else {}
    _text(row, "arm")
    if row.keys() != _CELL_FIELDS:
        return _made(CellRow, row)  # with defaults
    # A frozen dataclass sets fields one by one, a third of the time of reading; here all are there, so fill at once.
    cell = object.__new__(CellRow)
    cell.__dict__.update(row)
    return cell


def _skip(row: dict[str, Any]) -> SkipRow:
    _text(row, "arm", "reason")
    return _made(SkipRow, row)


def _process(row: dict[str, Any]) -> ProcessRow:
    _integer(row, "process", -1)
    _integer(row, "attempt", 0)
    _integer(row, "other_processes", -1)
    _text(row, "event", "detail")
    if row.get("event") not in _EVENTS:
        raise ValueError(f"event is {quoted(row.get('event'))}, not one of {', '.join(sorted(_EVENTS))}")
    return _made(ProcessRow, row)


_PARSERS: Mapping[str, Callable[[dict[str, Any]], CellRow | SkipRow | ProcessRow]] = MappingProxyType(
    {"cell": _cell, "skip": _skip, "process": _process}
)


def _json(text: str) -> Any:
    """The value of a line or a file; raises ValueError in plain words."""
    text = text.strip()
    try:
        value, end = _DECODER.raw_decode(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON at column {error.colno}: {error.msg[0].lower()}{error.msg[1:]}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except _GivenTwiceError:
        raise
    except ValueError:  # Python's own limit
        raise ValueError("an integer of thousands of digits, which nothing here takes") from None
    if end != len(text):
        raise ValueError(f"not JSON at column {end + 1}: extra data")
    return value


@contextmanager
def _collection_paused() -> Iterator[None]:
    """Rows make no cycles, but garbage collection would walk all of them again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _parse_row(text: str) -> CellRow | SkipRow | ProcessRow:
    row = _json(text)
    if not isinstance(row, dict):
        raise ValueError("not an object")
    kind = row.pop("kind", None)
    if not isinstance(kind, str) or kind not in _PARSERS:
        raise ValueError(f"unknown kind {quoted(kind)}")
    return _PARSERS[kind](row)


def _parse_header(path: Path, line: str) -> Header:
    try:
        raw = _json(line)
    except _GivenTwiceError as error:
        raise UserError(f"{path}:1: {error}; {_REMEDY}") from None
    except ValueError:
        raise UserError(f"{path}:1: not JSON, so not a record; {_REMEDY}") from None
    if not isinstance(raw, dict) or raw.get("kind") != "header":
        raise UserError(f"{path}:1: no header, so not a record; {_REMEDY}")
    version = raw.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool):
        raise UserError(f"{path}:1: schema_version is {quoted(version)}, not a number; is this a record of this suite?")
    if version < 1:
        raise UserError(f"{path}:1: schema_version is {version}, not 1 or above; is this a record of this suite?")
    if version > SCHEMA_VERSION:
        raise UserError(
            f"{path}: written with record schema {quoted(version)}, this version reads up to {SCHEMA_VERSION}; "
            "update smem-bench"
        )
    try:
        return Header.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(quoted(part, str) for part in first["loc"])
        raise UserError(f"{path}:1: header{' field ' if where else ''}{where}: {fault(first)}") from None


def is_packed(path: Path) -> bool:
    """Whether the file begins as gzip begins, whatever its name; raises OSError."""
    with path.open("rb") as file:
        return file.read(len(_GZIP)) == _GZIP


def _unpacked(path: Path, data: bytes) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            data = file.read(_MOST_BYTES + 1)
    except EOFError:
        raise UserError(f"{path}: gzip that is cut off; pack the record again, or copy the file again") from None
    except (OSError, zlib.error):
        raise UserError(f"{path}: damaged gzip; pack the record again, or copy the file again") from None
    if len(data) > _MOST_BYTES:
        raise UserError(f"{path}: gzip of more than {_MOST_BYTES >> 20} MiB; no record is as long")
    return data


def record_bytes(path: Path) -> bytes:
    """What a record file holds: unpacked, without the mark that some editors put before UTF-8. Raises UserError."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from None
    except ValueError:  # a zero byte, which a mark in a page can hold, or half a surrogate pair
        raise UserError(f"{str(path)!r}: cannot be read (no such name can be)") from None
    if data.startswith(_GZIP):
        data = _unpacked(path, data)
    for mark, encoding in _OTHER_MARKS.items():
        if data.startswith(mark):
            raise UserError(f"{path}: {encoding} text, and a record is UTF-8; save it as UTF-8")
    return data.removeprefix(_UTF8_MARK)


def read_json(path: Path, remedy: str) -> Any:
    """The value of a JSON file, or the list of those in a ``.jsonl``. Raises UserError that ends with ``remedy``."""
    try:
        text = record_bytes(path).decode("utf-8")
        if path.suffix == ".jsonl":
            return [_json(line) for line in text.splitlines() if line.strip()]
        return _json(text)
    except UnicodeDecodeError:
        raise UserError(f"{path}: not UTF-8 text, so not JSON; {remedy}") from None
    except ValueError as error:
        raise UserError(f"{path}: {error}; {remedy}") from None


def _lines(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Number, text and whether the end of line is missing, for each line."""
    lines = record_bytes(path).split(b"\n")
    ends_whole = lines[-1] == b""
    if ends_whole:
        lines.pop()
    for number, line in enumerate(lines, start=1):
        unfinished = number == len(lines) and not ends_whole
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            if not unfinished:
                raise UserError(f"{path}:{number}: not UTF-8 text, so not a record; {_REMEDY}") from None
            text = "\ufffd"
        yield number, text, unfinished


def read_record(path: Path) -> Record:
    """Read a record. A last line that was cut off is noted in ``torn_line``; any other bad line is an error.

    Raises UserError (file and line named) for an unreadable file, a missing header, a newer schema or a bad line.
    """
    lines = _lines(path)
    first = next(lines, None)
    if first is None:
        raise UserError(f"{path}: empty, so not a record; {_REMEDY}")
    if first[2]:
        if not first[1].startswith(_HEADER_START) and not _HEADER_START.startswith(first[1]):
            raise UserError(f"{path}:1: not a record; {_REMEDY}")
        raise UserError(f"{path}:1: the header line is cut off, so the record holds nothing; run it again")
    record = Record(header=_parse_header(path, first[1]), path=path)
    with _collection_paused():
        for number, text, unfinished in lines:
            try:
                record.add(_parse_row(text))
            except (ValueError, RecursionError) as error:
                if unfinished:
                    record.torn_line = number
                    break
                reason = " ".join(str(error).split()) if isinstance(error, ValueError) else "nested too deeply"
                raise UserError(
                    f"{path}:{number}: not a row of a record ({reason}); the file was changed or damaged: restore it, "
                    "or record again"
                ) from None
    return record


def newest_first(folder: Path, tool: str) -> Sequence[Path]:
    """Records of ``tool`` under ``folder``, newest header first; files that are no records are passed over."""
    found: list[tuple[str, Path]] = []
    for path in sorted([*folder.glob("*.jsonl"), *folder.glob("*.jsonl.gz")]):
        try:
            with gzip.open(path) if is_packed(path) else path.open("rb") as file:
                header = _parse_header(path, file.readline().removeprefix(_UTF8_MARK).decode("utf-8"))
        except (UserError, OSError, EOFError, zlib.error, UnicodeDecodeError):
            continue
        if header.tool == tool:
            found.append((header.created_utc, path))
    return [path for _, path in sorted(found, reverse=True)]
