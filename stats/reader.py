"""How a record is read back, and what is said of one that is torn, foreign, newer or damaged.

A last line without its end was being written when the run was killed: it is noted and passed over. Any other
line that is no row of a record is an error naming file and line: a figure that silently lost cells is worse than none.
The trap: JSON gives integers of any size and nesting of any depth; neither may end in a traceback.
"""

from __future__ import annotations

import gc
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

from pydantic import ValidationError

from stats.errors import UserError, unreadable
from stats.schema import SCHEMA_VERSION, CellRow, Header, ProcessEvent, ProcessRow, Record, SkipRow

__all__ = ["newest_first", "read_record"]

_HEADER_START = '{"kind":"header"'  # as the writer writes it; what starts otherwise is a file of something else
_REMEDY = "give a .jsonl that a run wrote with --out"
_POSITIVE = ("time_ns", "sm_cycles", "clock_mhz")  # or null: not measured
_NAN_FIELDS = ("temperature_c", "power_w", "nvml_clock_mhz", "started_s")
_COUNTS = ("process", "block", "position", "attempt")
_LARGEST_COUNT = 2**31 - 1
_SMALLEST_POSITIVE, _LARGEST_FIGURE = 1e-9, 1e100  # ratios and squares of what lies between are still numbers
_CELL_FIELDS = CellRow.__dataclass_fields__.keys()
_EVENTS = frozenset(get_args(ProcessEvent))
_DECODER = json.JSONDecoder()  # json.loads looks at its arguments and at white space on each of 100,000 lines


def _integer(row: Mapping[str, Any], name: str, lowest: int) -> None:
    if name in row and (type(row[name]) is not int or not lowest <= row[name] <= _LARGEST_COUNT):
        raise ValueError(f"{name} is {row[name]!r}, not an integer from {lowest} to {_LARGEST_COUNT}")


def _text(row: Mapping[str, Any], *names: str) -> None:
    for name in names:
        if type(row.get(name, "")) is not str:
            raise ValueError(f"{name} is {row[name]!r}, not text")


def _figure(value: Any) -> float:
    if value is None:
        return math.nan
    if type(value) not in (int, float):
        raise ValueError(f"{value!r} is not a number")
    if _LARGEST_FIGURE < abs(value) < math.inf:
        raise ValueError(f"{value:g} is beyond anything that was measured")
    return float(value)


def _positive(name: str, value: Any) -> float:
    figure = _figure(value)
    if value is not None and not _SMALLEST_POSITIVE <= figure < math.inf:
        raise ValueError(f"{name} is {value!r}, not a finite number above 0; null where it was not measured")
    return figure


def _cell(row: dict[str, Any]) -> CellRow:
    # A record has up to some 100,000 of these: what is as it should be takes the short way.
    for name in _POSITIVE:
        if type(row.get(name)) is not float or not _SMALLEST_POSITIVE <= row[name] <= _LARGEST_FIGURE:
            row[name] = _positive(name, row.get(name))
    for name in _NAN_FIELDS:
        if type(row.get(name)) is not float or abs(row[name]) > _LARGEST_FIGURE:
            row[name] = _figure(row.get(name))
    for name in _COUNTS:
        if type(row.get(name, 0)) is not int or not 0 <= row.get(name, 0) <= _LARGEST_COUNT:
            _integer(row, name, 0)
    _integer(row, "launches", 1)
    _integer(row, "other_processes", -1)
    reasons = row.get("throttle_reasons", [])
    if type(reasons) is not list or any(type(reason) is not str for reason in reasons):
        raise ValueError(f"throttle_reasons is {reasons!r}, not a list of names")
    row["throttle_reasons"] = tuple(reasons)
    values = row.get("values")
    row["values"] = {key: _figure(value) for key, value in values.items()} if values else {}
    _text(row, "arm")
    if row.keys() != _CELL_FIELDS:
        return CellRow(**row)  # with defaults, or a TypeError that names the field
    # A frozen dataclass sets fields one by one, a third of the time of reading; here all are there, so fill at once.
    cell = object.__new__(CellRow)
    cell.__dict__.update(row)
    return cell


def _skip(row: dict[str, Any]) -> SkipRow:
    _text(row, "arm", "reason")
    return SkipRow(**row)


def _process(row: dict[str, Any]) -> ProcessRow:
    _integer(row, "process", -1)
    _integer(row, "attempt", 0)
    _integer(row, "other_processes", -1)
    _text(row, "event", "detail")
    if row["event"] not in _EVENTS:
        raise ValueError(f"event is {row['event']!r}, not one of {', '.join(sorted(_EVENTS))}")
    return ProcessRow(**row)


_PARSERS: Mapping[str, Callable[[dict[str, Any]], CellRow | SkipRow | ProcessRow]] = MappingProxyType(
    {"cell": _cell, "skip": _skip, "process": _process}
)


def _json(text: str) -> Any:
    try:
        value, end = _DECODER.raw_decode(text)
    except ValueError:
        return json.loads(text)  # may begin with white space; else names the fault
    return value if end == len(text) else json.loads(text)


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
        raise ValueError(f"unknown kind {kind!r}")
    return _PARSERS[kind](row)


def _parse_header(path: Path, line: str) -> Header:
    try:
        raw = json.loads(line)
    except (ValueError, RecursionError):
        raise UserError(f"{path}:1: not JSON, so not a record; {_REMEDY}") from None
    if not isinstance(raw, dict) or raw.get("kind") != "header":
        raise UserError(f"{path}:1: no header, so not a record; {_REMEDY}")
    version = raw.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool):
        raise UserError(f"{path}:1: schema_version is {version!r}, not a number; is this a record of this suite?")
    if version < 1:
        raise UserError(f"{path}:1: schema_version is {version}, not 1 or above; is this a record of this suite?")
    if version > SCHEMA_VERSION:
        raise UserError(
            f"{path}: written with record schema {version}, this version reads up to {SCHEMA_VERSION}; "
            "update smem-bench"
        )
    try:
        return Header.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UserError(f"{path}:1: header field {where}: {' '.join(first['msg'].split())}") from None


def _lines(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Number, text and whether the end of line is missing, for each line."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from None
    except ValueError:  # a zero byte, which a mark in a page can hold
        raise UserError(f"{str(path)!r}: cannot be read (no such name can be)") from None
    lines = data.split(b"\n")
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
            except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
                if unfinished:
                    record.torn_line = number
                    break
                reason = " ".join(str(error).split())
                raise UserError(
                    f"{path}:{number}: not a row of a record ({type(error).__name__}: {reason}); the file was changed "
                    "or damaged: restore it, or record again"
                ) from None
    return record


def newest_first(folder: Path, tool: str) -> Sequence[Path]:
    """Records of ``tool`` under ``folder``, newest header first; files that are no records are passed over."""
    found: list[tuple[str, Path]] = []
    for path in sorted(folder.glob("*.jsonl")):
        try:
            with path.open(encoding="utf-8") as file:
                header = _parse_header(path, file.readline())
        except (UserError, OSError, UnicodeDecodeError):
            continue
        if header.tool == tool:
            found.append((header.created_utc, path))
    return [path for _, path in sorted(found, reverse=True)]
