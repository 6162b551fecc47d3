"""When may a run stop? At an n fixed beforehand, or after Stein's two stages; never when it looks good.

Stein: a first stage of n0 units fixes the total n for a wanted half-width, and the interval keeps the first stage's
standard deviation and degrees of freedom, whatever the second stage shows. The trap: an ordinary t interval on the
pooled stages covers less than it prints, and peeking until p < .05 is wrong far more often than in one case of twenty;
the rows "Stein's two stages" and "peeking" of results/simulation.json, marked as controls, hold how much.

Source: C. Stein, "A two-sample test for a linear hypothesis whose power is independent of the variance", Annals of
Mathematical Statistics 16 (1945) 243-258.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stats.analysis.effect import Interval, percent
from stats.analysis.intervals import Floats
from stats.base.errors import UserError


@dataclass(frozen=True)
class TwoStages:
    """What a pilot that counts as first stage asks for in all; blocks per process stay as they were in it."""

    first: int  # processes of the pilot
    processes: int  # in all
    half_width_percent: float  # of stein_interval over all of them


def _t_quantile(n0: int, confidence: float) -> float:
    from scipy import stats

    return float(stats.t.ppf((1 + confidence) / 2, n0 - 1))


def units_in_all(spread: Floats | float, n0: int, half_width: float, confidence: float = 0.95) -> Floats:
    """Stein's total, max(n0, ceil(s0² t²(n0-1) / h²)), for each first stage's standard deviation ``spread`` (...)."""
    needed = np.ceil((np.asarray(spread) * _t_quantile(n0, confidence) / half_width) ** 2)
    return np.asarray(np.maximum(n0, needed))


def half_width_kept(spread: Floats | float, n0: int, total: Floats | float, confidence: float = 0.95) -> Floats:
    """Stein's half-width, t(n0-1) s0 / sqrt(n), for ``total`` (...) units n and the first stage's ``spread`` (...)."""
    return np.asarray(_t_quantile(n0, confidence) * np.asarray(spread) / np.sqrt(total))


def _spread(first: Sequence[float] | Floats) -> tuple[int, float]:
    x = np.asarray(first, dtype=np.float64)
    if len(x) < 2 or not np.isfinite(x).all():
        raise UserError(f"first stage: {len(x)} finite units are needed, at least 2; run a longer first stage")
    return len(x), float(x.std(ddof=1))


def stein_total(first: Sequence[float] | Floats, half_width: float, *, confidence: float = 0.95) -> int:
    """Units needed in all for an interval of ±``half_width`` (log-ratio): max(n0, ceil(s0² t²(n0-1) / h²)).

    Raises UserError for fewer than two finite units or a half-width that is not above 0.
    """
    if not half_width > 0:
        raise UserError(f"half-width: is {half_width:g}; give one above 0")
    n0, s0 = _spread(first)
    return int(units_in_all(s0, n0, half_width, confidence))


def stein_interval(
    first: Sequence[float] | Floats, both: Sequence[float] | Floats, *, confidence: float = 0.95
) -> Interval:
    """Mean of ``both`` stages (n) ± t(n0-1) s0 / sqrt(n), with the first stage's n0 and s0.

    Raises UserError for a first stage of fewer than two units and for fewer units in all than in it.
    """
    n0, s0 = _spread(first)
    x = np.asarray(both, dtype=np.float64)
    if len(x) < n0:
        raise UserError(f"both stages: {len(x)} units are fewer than the first stage's {n0}; give all of them")
    half = float(half_width_kept(s0, n0, len(x), confidence))
    return Interval(float(x.mean()) - half, float(x.mean()) + half, confidence)


def two_stages(pilots: Sequence[Floats], half_width: float, *, confidence: float = 0.95) -> TwoStages:
    """Stein's way to ±``half_width`` (log-ratio) for every pair of a pilot, given as its process means each.

    The pair that needs most processes decides. Raises UserError as ``stein_total`` does.
    """
    found = []
    for first in pilots:
        total = stein_total(first, half_width, confidence=confidence)
        n0, s0 = _spread(first)
        found.append(TwoStages(n0, total, percent(float(half_width_kept(s0, n0, total, confidence)))))
    return max(found, key=lambda way: (way.processes, way.half_width_percent))
