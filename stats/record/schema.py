"""What a record holds: the header, the cells, the arms that could not run, the events of the processes.

These are the only names and types that the runner, the inference and the reports share. Times are in ns, clocks in MHz,
cycles in SM clocks; a figure that was not measured is nan. The trap: fields may be added, with a default that an old
record can live with; taking one away or changing its meaning needs a new ``SCHEMA_VERSION``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

SCHEMA_VERSION = 1
LARGEST_COUNT = 2**31 - 1

# What a run may be is the same in a config and in a record.
Processes = Annotated[int, Field(ge=1, le=1000)]
Blocks = Annotated[int, Field(ge=1, le=100_000)]  # per process
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]
MarginPercent = Annotated[float, Field(gt=0, lt=100)]
_SIZES = ("m", "n", "k", "blocks_per_sm", "warps", "ksteps_per_warp")  # of a workload: figures are divided by them


_COUNTS = frozenset(  # facts of an arm that tables and predictions compute with
    {"registers", "spill_bytes", "shared_bytes", "resident_blocks", "load_instructions", "bytes", "instructions"}
    | {"mmas", "port_cycles", "port_bytes", "bytes_per_instruction", "warps", "in_flight"}
)
_COUNTS_OR_NULL = frozenset({"wavefronts", "least_wavefronts", "copies", "added"})
_TEXTS = frozenset({"kind", "instruction", "pattern"})


def compared_arms(comparisons: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The declared family; raises ValueError for an arm that is compared with itself."""
    for a, b in comparisons:
        if a == b:
            raise ValueError(f"{a} is compared with itself")
    return comparisons


ProcessEvent = Literal["start", "end", "failed", "interrupted", "resumed", "complete"]


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
    other_processes: int = 0  # -1: not known
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
    event: ProcessEvent
    attempt: int = 0
    detail: str = ""
    other_processes: int = 0  # -1: not known


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Device(_Model):
    """The GPU that was measured."""

    name: str
    uuid: str
    compute_capability: str  # "9.0"
    sm_count: int = Field(ge=1, le=100_000)
    driver: str = "unknown"

    @field_validator("compute_capability")
    @classmethod
    def _two_numbers(cls, text: str) -> str:
        if not re.fullmatch(r"[0-9]{1,3}\.[0-9]", text):
            raise ValueError(f"{text[:40]!r} is not a compute capability such as 9.0")
        return text

    @property
    def arch(self) -> int:
        """90 for compute capability 9.0, as compilers number architectures."""
        return int(self.compute_capability.replace(".", ""))


class ClockState(_Model):
    """What was asked of the clocks, and what was done. ``label`` is what every output prints."""

    requested: Literal["lock", "monitor", "auto"]
    effective: Literal["lock", "monitor"]
    locked_sm_mhz: int | None = Field(None, gt=0)
    locked_memory_mhz: int | None = Field(None, gt=0)
    label: str


class ArmInfo(_Model):
    """One arm: its name and what is known of it without running it (registers, wavefronts, ...)."""

    name: str
    static: dict[str, Any] = Field(default_factory=dict)

    @field_validator("static")
    @classmethod
    def _of_their_kinds(cls, static: dict[str, Any]) -> dict[str, Any]:
        for name, value in static.items():
            count = type(value) is int and 0 <= value <= LARGEST_COUNT
            if name in _TEXTS and not isinstance(value, str):
                raise ValueError(f"{name} is {str(value)[:40]}, not text")
            if (name in _COUNTS or (name in _COUNTS_OR_NULL and value is not None)) and not count:
                raise ValueError(f"{name} is {str(value)[:40]}, not an integer from 0 to {LARGEST_COUNT}")
            if name == "predicted_cycles" and not (type(value) in (int, float) and 0 < value <= LARGEST_COUNT):
                raise ValueError(f"{name} is {str(value)[:40]}, not a number above 0")
        return static


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
    sources: list[str] = Field(default_factory=list)  # the files it covers, in order, relative to the packages' folder
    build_flags: list[str] = Field(default_factory=list)
    config: dict[str, Any] = Field(default_factory=dict)
    seed: int
    clocks: ClockState
    arms: list[ArmInfo]
    reference: str  # the arm that has a twin
    twin: str | None = None  # name of the A/A twin arm
    comparisons: list[tuple[str, str]] = Field(default_factory=list)  # the declared family
    margin_percent: MarginPercent = 0.5  # equivalence margin, fixed before the run
    processes: Processes
    blocks: Blocks
    launches: int | None = Field(None, ge=1, le=LARGEST_COUNT)
    l2_mode: Literal["hot", "flushed"] = "hot"
    workload: dict[str, Any] = Field(default_factory=dict)  # what must agree for two records to be comparable

    _of_different_arms = field_validator("comparisons")(compared_arms)

    @field_validator("workload")
    @classmethod
    def _of_some_size(cls, workload: dict[str, Any]) -> dict[str, Any]:
        for name in _SIZES:
            if name in workload and (type(workload[name]) is not int or not 1 <= workload[name] <= LARGEST_COUNT):
                raise ValueError(f"{name} is {str(workload[name])[:40]}, not an integer from 1 to {LARGEST_COUNT}")
        return workload

    @model_validator(mode="after")
    def _of_declared_arms(self) -> Header:
        names = [arm.name for arm in self.arms]
        if not names:
            return self  # not yet known: the first process tells them
        if len(set(names)) < len(names):
            raise ValueError(f"arms: {next(name for name in names if names.count(name) > 1)!r} is declared twice")
        for what, used in (
            ("reference", [self.reference]),
            ("twin", [self.twin] if self.twin is not None else []),
            ("comparisons", [name for pair in self.comparisons for name in pair]),
        ):
            for name in used:
                if name not in names:
                    raise ValueError(f"{what}: {name!r} is none of its arms")
        return self


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
        return self.header.run_id if self.path is None else Path(self.path.name.removesuffix(".gz")).stem


def without_nan(value: Any) -> Any:
    """The value with null for every float that is not finite, since JSON has no nan, and lists for tuples."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (str, int)):
        return value
    if isinstance(value, Mapping):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_nan(item) for item in value]
    return value
