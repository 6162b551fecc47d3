"""When may a run stop? At an n fixed beforehand, or after Stein's two stages; never when it looks good.

Stein: a first stage of n0 units fixes the total n for a wanted half-width, and the interval keeps the first stage's
standard deviation and degrees of freedom, whatever the second stage shows. The trap: an ordinary t interval on the
pooled stages covers .927 where .95 is printed, and peeking after every block until p < .05 is wrong 28 % of the time.

Source: C. Stein, "A two-sample test for a linear hypothesis whose power is independent of the variance", Annals of
Mathematical Statistics 16 (1945) 243-258.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from stats.errors import UserError
from stats.inference import Interval
from stats.intervals import Floats

__all__ = ["stein_interval", "stein_total"]


def _t_quantile(n0: int, confidence: float) -> float:
    from scipy import stats

    return float(stats.t.ppf((1 + confidence) / 2, n0 - 1))


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
    return max(n0, math.ceil((s0 * _t_quantile(n0, confidence) / half_width) ** 2))


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
    half = _t_quantile(n0, confidence) * s0 / math.sqrt(len(x))
    return Interval(float(x.mean()) - half, float(x.mean()) + half, confidence)
