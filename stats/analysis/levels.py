"""How high is one arm, by itself: the mean of a figure with its interval, for tables; differences are ``compare``'s.

The unit is the process, as everywhere; with one process it is ten batch means, and the level says that it is
conditional on that process. The trap: cells of one process are not independent, so their number is never the n of the
interval.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from stats.analysis.prepare import accepted_cells
from stats.record.schema import CellRow, Record

BATCHES = 10


def plus_minus(mean: float, half_width: float, spec: str = ".2f") -> str:
    """``24.07 ±0.01``; the bare mean where the half width is nan, ``–`` where the mean is.

    The half width is rounded up, so that an interval narrower than the digits shown does not look like none.
    """
    if math.isnan(mean):
        return "–"
    bare = format(mean, spec)
    if math.isnan(half_width):
        return bare
    unit = 10.0 ** -len(bare.partition(".")[2])
    return f"{bare} ±{format(math.ceil(half_width / unit) * unit, spec)}"


@dataclass(frozen=True)
class Level:
    """A mean and its t interval; ``low`` and ``high`` are nan where n is below 2."""

    mean: float
    low: float
    high: float
    confidence: float
    n: int
    unit: Literal["processes", "batches of one process"]

    @property
    def half_width(self) -> float:
        """Half of the interval, in the unit of the mean; nan without one."""
        return (self.high - self.low) / 2

    def text(self, spec: str = ".2f") -> str:
        """Mean and half width as ``plus_minus`` writes them."""
        return plus_minus(self.mean, self.half_width, spec)


def level_of(by_process: list[list[float]], confidence: float = 0.95) -> Level:
    """The level of values grouped by process (each list in the order of measurement)."""
    from stats.analysis.intervals import t_interval

    if len(by_process) == 1:
        values = np.asarray(by_process[0], dtype=np.float64)
        count = min(BATCHES, len(values))
        means = np.array([part.mean() for part in np.array_split(values, count)]) if count else values
    else:
        means = np.array([np.mean(values) for values in by_process], dtype=np.float64)
    unit: Literal["processes", "batches of one process"] = (
        "batches of one process" if len(by_process) == 1 else "processes"
    )
    if len(means) == 0 or not np.isfinite(means).all():
        return Level(math.nan, math.nan, math.nan, confidence, len(means), unit)
    mean = float(means.mean())
    if len(means) < 2:
        return Level(mean, math.nan, math.nan, confidence, len(means), unit)
    if np.ptp(means) == 0:  # scipy calls a constant sample degenerate; its interval is the point
        return Level(mean, mean, mean, confidence, len(means), unit)
    low, high = t_interval(means, confidence)
    return Level(mean, float(low), float(high), confidence, len(means), unit)


class ArmLevels:
    """The levels of a record's arms over the cells of accepted blocks: those that comparisons use, too.

    The record is laid out and its rule applied once, however many arms and figures are asked for.
    """

    def __init__(self, record: Record) -> None:
        self.record = record
        self._cells: dict[str, dict[int, list[CellRow]]] = defaultdict(lambda: defaultdict(list))
        for cell in accepted_cells(record):
            self._cells[cell.arm][cell.process].append(cell)

    def of(self, arm: str, figure: Callable[[CellRow], float], confidence: float = 0.95) -> Level:
        """The level of ``figure`` of one arm; nan for an arm without an accepted cell."""
        by_process = self._cells.get(arm, {})
        return level_of([[figure(cell) for cell in by_process[process]] for process in sorted(by_process)], confidence)


def arm_level(record: Record, arm: str, figure: Callable[[CellRow], float], confidence: float = 0.95) -> Level:
    """The level of ``figure`` of one arm alone; for several arms or figures of a record, ask its ``ArmLevels``."""
    return ArmLevels(record).of(arm, figure, confidence)
