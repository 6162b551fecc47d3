"""How large is the difference between two arms, and how sure is that? Process means of log-ratios in, intervals out.

The unit is a fresh process: d = log(T_a / T_b) within a block, averaged inside each process, and every interval and
p-value is made from those few means. Effects are reported as 100 (e^theta - 1) %. The traps: a mean of ratios of two
equal arms lies above 1 whichever is divided (Jensen's inequality); pooled cells look like many samples and are few; and
constant or non-finite data give p = 0 or nan in the libraries, so they are stopped here and called untestable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from stats.analysis import intervals
from stats.analysis.effect import Inference, Interval, Unit
from stats.analysis.intervals import Floats

BATCHES = 10
QUICK_LOOK_BLOCKS = 200  # below it the batch means of one process are too short to be independent
LARGEST_LOG = 1500.0  # no two doubles have a ratio whose logarithm is larger
ROUNDING = 1e-12  # spread of log-ratios that rounding alone produces; no timer resolves it
MDE_POWER = 0.8

Values: TypeAlias = "Sequence[float] | Floats"


def batch_means(d: Values, batches: int = BATCHES) -> Floats:
    """Means of ``batches`` consecutive, nearly equal parts of ``d`` (n): a quick look's stand-in for processes."""
    return np.array([part.mean() for part in np.array_split(np.asarray(d, dtype=np.float64), batches)])


@lru_cache(maxsize=256)
def _detectable_size(n: int, m: int | None, alpha: float, power: float) -> float:
    from statsmodels.stats.power import TTestIndPower, TTestPower

    try:
        if m is None:
            found = TTestPower().solve_power(nobs=n, alpha=alpha, power=power)
        else:
            found = TTestIndPower().solve_power(nobs1=n, ratio=m / n, alpha=alpha, power=power)
    except (ValueError, RuntimeError):  # the solver gives up far outside its range
        return math.nan
    return float(np.squeeze(found))


def minimum_detectable_effect(
    spread: float, n: int, m: int | None = None, *, alpha: float = 0.05, power: float = MDE_POWER
) -> float:
    """Smallest log-ratio that a t test of n units of this spread (against m) finds with ``power``; nan below n = 2."""
    return spread * _detectable_size(n, m, alpha, power) if n >= 2 else math.nan


def tost_p(theta: Values, margin: float) -> float:
    """Larger p of the two one-sided t tests against ±``margin`` (log-ratio), for two or more units with spread."""
    from statsmodels.stats.weightstats import DescrStatsW

    return float(DescrStatsW(np.asarray(theta, dtype=np.float64)).ttost_mean(-margin, margin)[0])


def tost_p_unpaired(new: Values, old: Values, margin: float) -> float:
    """Larger p of the two one-sided Welch tests of mean(new) - mean(old) against ±``margin`` (log-ratio)."""
    from statsmodels.stats.weightstats import ttost_ind

    x, y = (np.asarray(side, dtype=np.float64) for side in (new, old))
    return float(ttost_ind(x, y, -margin, margin, usevar="unequal")[0])


def _no_logarithms(*samples: Floats) -> str | None:
    if not all(np.isfinite(x).all() for x in samples):
        return "a value is not a finite number"
    if any(np.abs(x).max(initial=0.0) > LARGEST_LOG for x in samples):
        return "a value is not the logarithm of a ratio of durations"
    return None


def _constant(x: Floats) -> bool:
    return bool(np.ptp(x) <= ROUNDING * max(1.0, float(np.abs(x).max())))


def _few(given: str, p_minimum: float, alpha: float, needed: str) -> str | None:
    # Beyond 2 alpha neither a difference (level alpha) nor equivalence (level 2 alpha) is within an exact test's reach.
    if p_minimum <= 2 * alpha:
        return None
    return f"too few: {given} (smallest exact p {p_minimum:.3g}, alpha {alpha:g}); {needed} are needed"


def _with_intervals(
    base: Inference,
    t: Callable[[float], tuple[float, float]],
    hl: Callable[[float], tuple[float, float, float]],
    p: float,
) -> Inference:
    alpha = base.alpha
    return replace(
        base,
        t=Interval(*t(1 - alpha), 1 - alpha),
        t_tost=Interval(*t(1 - 2 * alpha), 1 - 2 * alpha),
        t_simultaneous=Interval(*t(1 - alpha / base.family), 1 - alpha / base.family),
        hl=Interval(*hl(1 - alpha)),
        hl_tost=Interval(*hl(1 - 2 * alpha)),
        p=p,
        p_holm=p,
    )


def infer(theta: Values, *, alpha: float = 0.05, unit: Unit = "process", family: int = 1) -> Inference:
    """Intervals and exact p for ``theta`` (n log-ratios, one a unit); data never raise and never give p = 0.

    Too few, constant or non-finite data give an Inference whose ``untestable`` says why; with too few, the
    Hodges-Lehmann range is kept with the confidence it attains. Holm's adjustment is ``holm``'s, over the family.
    """
    x = np.asarray(theta, dtype=np.float64).ravel()
    n = len(x)
    base = Inference(unit=unit, n=n, alpha=alpha, family=family)
    needed = intervals.processes_needed(alpha)
    if n == 0:
        return replace(base, untestable=f"no {unit} left; {needed} are needed")
    fault = _no_logarithms(x)
    if fault:
        return replace(base, untestable=fault)
    base = replace(base, theta=float(x.mean()), hl_theta=float(intervals.hodges_lehmann(x)))
    if n > 1 and _constant(x):
        same = f"every {unit} gave the same ratio, {base.effect_percent:+.4g} % exactly"
        return replace(base, untestable=f"{same}: without spread there is nothing to test")
    base = replace(base, p_minimum=intervals.attainable_p(n), untestable=None)

    def hl(confidence: float) -> tuple[float, float, float]:
        low, high, attained = intervals.hodges_lehmann_interval(x, confidence)
        return float(low), float(high), attained

    def t(confidence: float) -> tuple[float, float]:
        low, high = intervals.t_interval(x, confidence)
        return float(low), float(high)

    units = "processes" if unit == "process" else "batches"
    few = _few(f"{n} {unit if n == 1 else units}", base.p_minimum, alpha, f"{needed} {units}")
    if few:
        return replace(base, untestable=few, hl=Interval(*hl(1 - alpha)) if n > 1 else None)
    spread = float(x.std(ddof=1))
    base = replace(base, spread=spread, minimum_detectable=minimum_detectable_effect(spread, n, alpha=alpha))
    return _with_intervals(base, t, hl, float(intervals.sign_flip_p(x)))


def infer_unpaired(new: Values, old: Values, *, alpha: float = 0.05, family: int = 1) -> Inference:
    """Welch, Mann-Whitney shift and exact permutation for the process means of log times of two runs.

    theta = mean(new) - mean(old); ``spread`` is the root mean square of the two standard deviations. Guards as in
    ``infer``; a side whose processes all read the same is untestable too.
    """
    x, y = (np.asarray(side, dtype=np.float64).ravel() for side in (new, old))
    n, m = len(x), len(y)
    base = Inference(unit="unpaired process", n=min(n, m), alpha=alpha, family=family)
    if n == 0 or m == 0:
        return replace(base, untestable="no process left in one of the two runs; 4 in each are needed")
    fault = _no_logarithms(x, y)
    if fault:
        return replace(base, untestable=fault)
    base = replace(
        base,
        theta=float(x.mean() - y.mean()),
        hl_theta=intervals.shift(x, y),
        p_minimum=intervals.attainable_p_unpaired(n, m),
    )
    p_minimum = base.p_minimum if min(n, m) > 1 else 1.0
    few = _few(f"{n} against {m} processes", p_minimum, alpha, "4 in each run")
    if few:
        return replace(base, untestable=few)
    if n == m and np.array_equal(x, y):
        return replace(base, untestable="the two runs hold the same figures: is it one run twice?")
    if _constant(x) or _constant(y):
        side = "both runs" if _constant(x) and _constant(y) else "the new run" if _constant(x) else "the old run"
        same = f"every process of {side} read the same"
        return replace(base, untestable=f"{same} (difference {base.effect_percent:+.4g} %): nothing to test against")
    spread = math.sqrt((float(x.var(ddof=1)) + float(y.var(ddof=1))) / 2)
    base = replace(base, spread=spread, minimum_detectable=minimum_detectable_effect(spread, n, m, alpha=alpha))
    return _with_intervals(
        base,
        lambda confidence: intervals.welch_interval(x, y, confidence),
        lambda confidence: intervals.shift_interval(x, y, confidence),
        intervals.permutation_p(x, y),
    )


def holm(found: Sequence[Inference]) -> list[Inference]:
    """Fill ``p_holm`` over the family ``found``; a member without p counts with p = 1 (it was asked all the same).

    Holm 1979, as statsmodels' ``multipletests``, which takes a garbage collection, 50 ms and more, for each family.
    """
    raw = np.array([member.p if math.isfinite(member.p) else 1.0 for member in found])
    order = np.argsort(raw)
    adjusted = np.empty_like(raw)
    adjusted[order] = np.minimum(np.maximum.accumulate(raw[order] * np.arange(len(raw), 0, -1)), 1)
    return [
        replace(member, p_holm=float(p)) if math.isfinite(member.p) else member
        for member, p in zip(found, adjusted, strict=True)
    ]
