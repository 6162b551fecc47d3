"""What a report is made of: tables and figures as plain data, before any of it is drawn.

A tool (micro-bench, gemm-bench) says what its records show by filling these in; rendering to Markdown, HTML, PNG or
SVG happens elsewhere and knows no tool. The trap: a figure that cannot be drawn from a record must say so by
``NotInRecord``, so that "every figure of this record" leaves it out and a reader who asked for it gets one line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from stats.analysis.levels import Level
from stats.base.errors import UserError
from stats.base.tables import Column, Format
from stats.record.schema import Record


class NotInRecord(UserError):  # noqa: N818 - names what is so, not that it is an error
    """The record does not hold what this table or figure shows."""


@dataclass(frozen=True)
class Table:
    """Columns and rows; ``note`` says units and what the intervals are. Rows may hold more keys than columns.

    ``own_legends``: a terminal, which may leave columns out, is told the same by the legends of those that it shows.
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Mapping[str, Any]]
    note: str = ""
    own_legends: bool = False

    def note_for(self, fmt: Format) -> str:
        """The note that stands below the table in this format."""
        return "" if fmt == "table" and self.own_legends else self.note


@dataclass(frozen=True)
class Bar:
    """One arm of a ladder: its level in the ladder's unit; ``group`` gives bars of one kind one colour."""

    label: str
    level: Level
    group: str = ""


@dataclass(frozen=True)
class Mark:
    """A line across a ladder: a physical limit (no interval), or a reference such as cuBLAS with its interval."""

    label: str
    value: float
    low: float = math.nan
    high: float = math.nan


@dataclass(frozen=True)
class Ladder:
    """How high is each arm, against what it could reach? ``unit`` is that of the axis; higher is better or worse."""

    title: str
    unit: str
    bars: Sequence[Bar]
    marks: Sequence[Mark] = ()
    note: str = ""


@dataclass(frozen=True)
class PredictedRow:
    """One arm: its prediction and its measured level, in one unit."""

    label: str
    predicted: float
    level: Level
    group: str = ""


@dataclass(frozen=True)
class Predicted:
    """Measured against predicted, arm by arm."""

    title: str
    unit: str
    rows: Sequence[PredictedRow]
    note: str = ""


@dataclass(frozen=True)
class OverlapRow:
    """L, M and T of one variant: load only, mma only, load and mma together."""

    label: str
    load: Level
    mma: Level
    both: Level

    @property
    def hidden_percent(self) -> float:
        """(L + M - T) / min(L, M) in per cent; negative when the two together cost more than one after the other."""
        load, mma, both = self.load.mean, self.mma.mean, self.both.mean
        return 100 * (load + mma - both) / min(load, mma)


@dataclass(frozen=True)
class Overlap:
    """What hides behind what: L, M and T side by side."""

    title: str
    unit: str
    rows: Sequence[OverlapRow]
    note: str = ""


@dataclass(frozen=True)
class Panel:
    """One comparison: per cent differences of every accepted block, process by process, and what was inferred.

    ``low`` and ``high`` are the ends of the primary interval in per cent, nan without one.
    """

    label: str
    blocks_percent: Sequence[Sequence[float]]
    effect_percent: float
    low_percent: float
    high_percent: float
    verdict: str


@dataclass(frozen=True)
class Paired:
    """Paired differences per block: the effect beside its scatter, one panel a comparison."""

    title: str
    metric: str
    margin_percent: float
    panels: Sequence[Panel]
    note: str = ""


@dataclass(frozen=True)
class RunTrace:
    """Clock, power and temperature over the run, cell by cell in the order of measurement.

    ``elapsed_s`` runs on from process to process without the time between; ``starts`` are the indices of the cells with
    which a process begins, ``excluded_s`` the spans of blocks that the analysis left out. A series that was not
    measured is all nan.
    """

    title: str
    arms: Sequence[str]
    elapsed_s: Sequence[float]
    clock_mhz: Sequence[float]
    power_w: Sequence[float]
    temperature_c: Sequence[float]
    starts: Sequence[int]
    excluded_s: Sequence[tuple[float, float]] = ()
    note: str = ""


FigureData: TypeAlias = Ladder | Predicted | Overlap | Paired | RunTrace


@dataclass(frozen=True)
class ToolReport:
    """What the records of one tool show: tables and figures by name, each computed from a record.

    ``main`` names the table that stands for the record. A builder raises NotInRecord where the record cannot show it.
    """

    main: str
    tables: Mapping[str, Callable[[Record], Table]] = field(default_factory=dict)
    figures: Mapping[str, Callable[[Record], FigureData]] = field(default_factory=dict)
