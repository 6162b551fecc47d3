"""The record: what a run measured, one JSON object a line, so that every table can be computed again from it.

Line 1 is the header (what was run, where, from which sources). Every later line is one finished cell, one arm that could
not run, or one event of a process. Lines are only ever appended and each is flushed, so a killed run keeps every
finished cell; a torn last line is reported and passed over. The trap: a record without its source hash cannot be
told from one of another kernel, so the header is not optional.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stats.errors import UserError

__all__ = [
    "SCHEMA_VERSION",
    "ArmInfo",
    "Cell",
    "CellRow",
    "ClockState",
    "Device",
    "Header",
    "ProcessRow",
    "Record",
    "RecordWriter",
    "SkipRow",
    "read_record",
]

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Cell:
    """What an arm returns: ``launches`` launches measured as one.

    ``time_ns`` and ``sm_cycles`` are totals over the launches (``sm_cycles``: mean over the SMs); either may be nan
    where the arm cannot measure it, never both. ``clock_mhz`` is the measured average SM clock. ``values`` holds
    further figures by name, with the unit in the name.
    """

    time_ns: float
    sm_cycles: float
    launches: int
    clock_mhz: float = math.nan
    values: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class CellRow:
    """One finished cell with its place in the design of the run and the state of the device around it."""

    process: int
    block: int
    position: int
    arm: str
    launches: int
    time_ns: float
    sm_cycles: float
    clock_mhz: float = math.nan
    temperature_c: float = math.nan
    power_w: float = math.nan
    nvml_clock_mhz: float = math.nan
    throttle_reasons: tuple[str, ...] = ()
    other_processes: int = 0
    started_s: float = math.nan  # since the start of its process
    attempt: int = 0  # of this process index: a repeated process stays in the record
    values: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class SkipRow:
    """An arm that did not run, and why."""

    arm: str
    reason: str


@dataclass(frozen=True)
class ProcessRow:
    """The start, end or failure of one fresh process, or the end of the run (``process`` -1)."""

    process: int
    event: Literal["start", "end", "failed", "interrupted", "resumed", "complete"]
    attempt: int = 0
    detail: str = ""
    other_processes: int = 0


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Device(_Model):
    """The GPU that was measured."""

    name: str
    uuid: str
    compute_capability: str  # "9.0"
    sm_count: int
    driver: str = "unknown"


class ClockState(_Model):
    """What was asked of the clocks, and what was done. ``label`` is what every output prints."""

    requested: Literal["lock", "monitor", "auto"]
    effective: Literal["lock", "monitor"]
    locked_sm_mhz: int | None = None
    locked_memory_mhz: int | None = None
    label: str


class ArmInfo(_Model):
    """One arm: its name and what is known of it without running it (registers, wavefronts, ...)."""

    name: str
    static: dict[str, Any] = Field(default_factory=dict)


class Header(_Model):
    """Everything that was fixed before the first cell."""

    kind: Literal["header"] = "header"
    schema_version: int = SCHEMA_VERSION
    tool: str  # "micro-bench", "gemm-bench", or the caller's own name
    created_utc: str  # ISO 8601
    run_id: str
    device: Device | None = None
    software: dict[str, str] = Field(default_factory=dict)  # python, torch, cuda_runtime, nvcc, smem_bench
    git_commit: str = "unknown"
    git_dirty: bool = False
    source_hash: str = "none"  # of kernel sources and flags
    build_flags: list[str] = Field(default_factory=list)
    config: dict[str, Any] = Field(default_factory=dict)
    seed: int
    clocks: ClockState
    arms: list[ArmInfo]
    reference: str  # the arm that has a twin
    twin: str | None = None  # name of the A/A twin arm
    comparisons: list[tuple[str, str]] = Field(default_factory=list)  # the declared family
    margin_percent: float = 0.5  # equivalence margin, fixed before the run
    processes: int
    blocks: int
    launches: int | None = None
    l2_mode: Literal["hot", "flushed"] = "hot"
    workload: dict[str, Any] = Field(default_factory=dict)  # what must agree for two records to be comparable


def _plain(value: Any) -> Any:
    """JSON has no nan: a figure that was not measured is null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


class RecordWriter:
    """Append-only writer of one record; each line is flushed before ``append`` returns.

    ``path`` None keeps the rows in memory only. Raises UserError when the file cannot be written, before any GPU time
    is spent, and when it already exists (a record is never overwritten) unless ``resume`` is set.
    """

    def __init__(self, path: Path | None, header: Header, *, resume: bool = False) -> None:
        self.path = path
        self.record = Record(header=header, path=path)
        self._file: IO[str] | None = None
        if path is None:
            return
        if resume and path.exists():
            self.record = read_record(path)
            self._open(path, "r+" if self.record.torn_line else "a")
            if self.record.torn_line:
                self._cut_torn_line()
            return
        self._open(path, "x")
        self._write_line(header.model_dump(mode="json"))

    def _open(self, path: Path, mode: str) -> None:
        try:
            self._file = path.open(mode, encoding="utf-8")
        except FileExistsError:
            raise UserError(f"{path}: exists already; choose another --out, or continue it with --resume") from None
        except OSError as error:
            raise UserError(f"{path}: cannot be written ({error.strerror}); choose another --out") from None

    def _cut_torn_line(self) -> None:
        assert self._file is not None and self.path is not None
        whole = self.path.read_bytes()
        self._file.truncate(whole.rfind(b"\n") + 1)
        self._file.seek(0, os.SEEK_END)

    def _write_line(self, row: Mapping[str, Any]) -> None:
        if self._file is None:
            return
        try:
            self._file.write(json.dumps(_plain(row), separators=(",", ":")) + "\n")
            self._file.flush()
        except OSError as error:
            raise UserError(f"{self.path}: writing failed ({error.strerror}); the cells before it are kept") from None

    def append(self, row: CellRow | SkipRow | ProcessRow) -> None:
        """Append one row; it is on its way to the disk when this returns."""
        kind = {CellRow: "cell", SkipRow: "skip", ProcessRow: "process"}[type(row)]
        self._write_line({"kind": kind, **asdict(row)})
        self.record.add(row)

    def close(self) -> None:
        """Close the file; the rows stay readable through ``record``."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass
class Record:
    """A record in memory: header, cells, skipped arms, process events, and what was wrong with the file."""

    header: Header
    path: Path | None = None
    cells: list[CellRow] = field(default_factory=list)
    skips: list[SkipRow] = field(default_factory=list)
    events: list[ProcessRow] = field(default_factory=list)
    torn_line: int | None = None  # number of a last line that did not parse

    def add(self, row: CellRow | SkipRow | ProcessRow) -> None:
        """Add a row to the list of its kind."""
        if isinstance(row, CellRow):
            self.cells.append(row)
        elif isinstance(row, SkipRow):
            self.skips.append(row)
        else:
            self.events.append(row)

    @property
    def arm_names(self) -> list[str]:
        """Names of the declared arms, in the order of the header."""
        return [arm.name for arm in self.header.arms]

    @property
    def name(self) -> str:
        """How outputs call the record: the file's stem, or the run id."""
        return self.path.stem if self.path is not None else self.header.run_id


_NAN_FIELDS = (
    "time_ns",
    "sm_cycles",
    "clock_mhz",
    "temperature_c",
    "power_w",
    "nvml_clock_mhz",
    "started_s",
)
_CELL_FIELDS = frozenset(CellRow.__dataclass_fields__)


def _cell(row: dict[str, Any]) -> CellRow:
    for name in _NAN_FIELDS:
        value = row.get(name, math.nan)
        row[name] = math.nan if value is None else float(value)
    for name in ("process", "block", "position", "launches"):
        if type(row[name]) is not int or row[name] < 0:
            raise ValueError(f"{name} is {row[name]!r}, not a non-negative integer")
    if type(row["arm"]) is not str:
        raise ValueError(f"arm is {row['arm']!r}, not a name")
    row["throttle_reasons"] = tuple(row.get("throttle_reasons", ()))
    values = row.get("values") or {}
    row["values"] = {key: math.nan if value is None else float(value) for key, value in values.items()}
    return CellRow(**row)


def _parse_header(path: Path, line: str) -> Header:
    try:
        raw = json.loads(line)
    except ValueError:
        raise UserError(f"{path}:1: not JSON; a record starts with its header line") from None
    if not isinstance(raw, dict) or raw.get("kind") != "header":
        raise UserError(f"{path}:1: no header; a record starts with a line of kind 'header'")
    version = raw.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool):
        raise UserError(f"{path}:1: schema_version is {version!r}, not a number; is this a record of this suite?")
    if version > SCHEMA_VERSION:
        raise UserError(
            f"{path}: written with record schema {version}, this version reads up to {SCHEMA_VERSION}; update smem-bench"
        )
    try:
        return Header.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UserError(f"{path}:1: header field {where}: {first['msg']}") from None


def _lines(path: Path) -> Iterator[tuple[int, str, bool]]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    lines = data.split(b"\n")
    ends_whole = lines[-1] == b""
    if ends_whole:
        lines.pop()
    for number, line in enumerate(lines, start=1):
        last = number == len(lines)
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            if last and not ends_whole:
                text = "\ufffd"
            else:
                raise UserError(f"{path}:{number}: not UTF-8 text; is this a record?") from None
        yield number, text, last and not ends_whole


def read_record(path: Path) -> Record:
    """Read a record. A last line that was cut off is noted in ``torn_line``; any other bad line is an error.

    Raises UserError (file and line named) for an unreadable file, a missing header, a newer schema or a bad line.
    """
    lines = _lines(path)
    first = next(lines, None)
    if first is None:
        raise UserError(f"{path}: empty; a record starts with its header line")
    if first[2]:
        raise UserError(f"{path}:1: the header line is cut off; nothing was recorded")
    record = Record(header=_parse_header(path, first[1]), path=path)
    for number, text, unfinished in lines:
        try:
            row = json.loads(text)
            kind = row.pop("kind")
            if kind == "cell":
                record.add(_cell(row))
            elif kind == "skip":
                record.add(SkipRow(**row))
            elif kind == "process":
                record.add(ProcessRow(**row))
            else:
                raise ValueError(f"unknown kind {kind!r}")
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            if unfinished:
                record.torn_line = number
                break
            raise UserError(f"{path}:{number}: not a row of a record ({type(error).__name__}: {error})") from None
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
