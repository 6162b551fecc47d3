"""How much do process means scatter, and how much of that do more blocks average out? A pilot Record in.

One-way analysis of variance over the paired log-ratios: within processes (a block's scatter) and between them (what no
number of blocks removes). The trap: neighbouring blocks resemble each other, so a process mean settles more slowly
than within² / blocks says; the within part is inflated by the lag-1 autocorrelation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from stats.analysis.exclusion import ExclusionRule
from stats.analysis.grid import Metric
from stats.analysis.prepare import pair_means, prepare
from stats.base.errors import UserError
from stats.record.schema import Record


@dataclass(frozen=True)
class VarianceComponents:
    """Standard deviations (log-ratio) of one pair: ``between`` processes, and ``within`` them for one block.

    ``within`` is inflated by the lag-1 autocorrelation, (1 + r) / (1 - r), so that within² / blocks is what remains of
    it in a process mean. ``processes`` and ``blocks`` (mean of accepted) say what the pilot had.
    """

    a: str
    b: str
    metric: Metric
    within: float
    between: float
    lag1: float
    processes: int
    blocks: float

    def spread(self, blocks: int) -> float:
        """Standard deviation of a process mean over ``blocks`` blocks."""
        return math.sqrt(self.between**2 + self.within**2 / blocks)


def variances(
    record: Record, pair: tuple[str, str], metric: Metric, rule: ExclusionRule | None = None
) -> VarianceComponents:
    """Variance components of ``pair`` from a pilot of two or more processes; UserError for a pilot that has none."""
    found = pair_means(prepare(record, rule), pair, metric)
    label = f"{record.name}: {pair[0]} against {pair[1]} in {metric}"
    if found.fault:
        raise UserError(f"{label}: {found.fault}; record another pilot")
    series = [part for part in found.series if len(part) > 1]
    if len(series) < 2:
        raise UserError(f"{label}: {len(series)} processes of two or more blocks; a pilot needs at least 2")
    counts = np.array([len(part) for part in series], dtype=np.float64)
    centred = [part - part.mean() for part in series]
    squares = sum(float((part * part).sum()) for part in centred)
    products = sum(float((part[1:] * part[:-1]).sum()) for part in centred)
    # Centring on a process's own mean pulls lag-1 down by about 1 / blocks.
    lag1 = min(max(products / squares + float((1 / counts).mean()), 0.0), 0.95) if squares > 0 else 0.0
    within = squares / float((counts - 1).sum()) * (1 + lag1) / (1 - lag1)
    means = np.array([part.mean() for part in series])
    blocks = len(counts) / float((1 / counts).sum())
    between = max(0.0, float(means.var(ddof=1)) - within / blocks)
    if within + between < 1e-24:
        raise UserError(f"{label}: every block gave the same ratio; there is no scatter to plan for")
    return VarianceComponents(*pair, metric, math.sqrt(within), math.sqrt(between), lag1, len(series), blocks)
