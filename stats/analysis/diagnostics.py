"""Did anything but the arms move the figures? Position, warm-up slope, autocorrelation and the measured clock.

Each test takes one number a process, so that its p means what it says when cells of one process resemble each other;
for one process the numbers are batches. They are printed, and become cautions where they fire; none of them licenses
treating cells as independent, and none drops a cell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from stats.analysis.effect import format_p, percent
from stats.analysis.grid import Grid, Metric
from stats.analysis.inference import BATCHES, infer
from stats.analysis.intervals import Floats
from stats.analysis.verdicts import Caution

LJUNG_BOX_LAGS = 10
RESEMBLANCE = 0.1  # mean lag-1 below which neighbours share nothing worth a warning
CLOCK_MOVES_PERCENT = 1.0  # below it a clock's shape cannot matter to a ratio taken inside a block
TWO_STATES_SHARE = 0.9  # of the variance that two levels explain; a normal clock gives .64, a uniform one .75
RAMP_SHARE = 0.5  # of the variance of a process's clock that a straight line explains


@dataclass(frozen=True)
class Trend:
    """A systematic change over position or trial index: its size in per cent and the p of none (``n`` units)."""

    name: str
    metric: Metric
    percent: float
    p: float
    n: int
    caution: Caution | None = None


@dataclass(frozen=True)
class Autocorrelation:
    """Of the paired differences inside processes: mean lag-1, and how many processes Ljung-Box marks at .05."""

    lag1: float
    marked: int
    processes: int
    smallest_p: float
    caution: Caution | None = None


@dataclass(frozen=True)
class ClockShape:
    """The measured clock of a run: extremes over cells in MHz, and whether it has two states or ramps."""

    low_mhz: float
    high_mhz: float
    bimodal: bool
    ramping: bool
    cautions: tuple[Caution, ...] = ()


def _residuals(grid: Grid, metric: Metric) -> list[tuple[Floats, Floats, Floats]]:
    """For each process: log figures less their arm's mean, positions, and trial indices, each (blocks, arms)."""
    values = grid.metric(metric)
    found = []
    for p in range(len(grid.processes)):
        keep = grid.accepted[p] & np.isfinite(values[p]).all(axis=1) & (values[p] > 0).all(axis=1)
        if keep.sum() < 2:
            continue
        logs = np.log(values[p][keep])
        position = grid.position[p][keep]
        index = np.flatnonzero(keep)[:, None] * len(grid.arms) + position
        found.append((logs - logs.mean(axis=0), position, index))
    return found


def _slope(x: Floats, y: Floats) -> float:
    x = x - x.mean()
    square = float((x * x).sum())
    return float((x * (y - y.mean())).sum()) / square if square > 0 else math.nan


def _units(parts: list[tuple[Floats, Floats, Floats]]) -> list[tuple[Floats, Floats, Floats]]:
    """One part a process; a single process is cut into batches."""
    if len(parts) != 1 or len(parts[0][0]) < 2 * BATCHES:
        return parts
    cuts = [np.array_split(array, BATCHES) for array in parts[0]]
    return list(zip(*cuts, strict=True))


def position_effect(grid: Grid, metric: Metric, *, alpha: float = 0.05) -> Trend:
    """Test whether the place inside a block matters: change from first to last position, in per cent."""
    places = len(grid.arms) - 1
    slopes = []
    for residual, position, _ in _units(_residuals(grid, metric)):
        centred = residual - residual.mean(axis=1, keepdims=True)  # a block's own level is not its positions' doing
        slopes.append(_slope(position, centred) * places)
    found = infer([slope for slope in slopes if math.isfinite(slope)], alpha=alpha)
    size = percent(found.theta) if math.isfinite(found.theta) else math.nan
    caution = None
    if found.p <= alpha:
        message = f"{metric}: the last place in a block reads {size:+.3f} % against the first (p {format_p(found.p)})"
        caution = Caution("position_effect", f"{message}; the balanced order cancels it, more warm-up may remove it")
    return Trend("position effect", metric, size, found.p, found.n, caution)


def warmup_slope(grid: Grid, metric: Metric, *, alpha: float = 0.05) -> Trend:
    """Test whether figures drift over the trial index: change from the first to the last trial, in per cent."""
    slopes = [_slope(index, residual) * float(np.ptp(index)) for residual, _, index in _residuals(grid, metric)]
    found = infer([slope for slope in slopes if math.isfinite(slope)], alpha=alpha)
    size, p, n = found.theta, found.p, found.n
    if len(slopes) == 1:
        size, p, n = _single_slope(grid, metric)
    size = percent(size) if math.isfinite(size) else math.nan
    caution = None
    if p <= alpha:
        message = f"{metric}: figures change by {size:+.3f} % from the first to the last trial (p {format_p(p)})"
        caution = Caution("warmup_slope", f"{message}; the warm-up is too short or the clock ramps")
    return Trend("warm-up slope", metric, size, p, n, caution)


def _single_slope(grid: Grid, metric: Metric) -> tuple[float, float, int]:
    """Slope over the batch means of one process, with the p of a rank correlation, which asks for no normal scatter."""
    from scipy import stats

    residual, _, index = _residuals(grid, metric)[0]
    batches = min(BATCHES, len(residual))
    level = np.array([part.mean() for part in np.array_split(residual, batches)])
    if batches < 4 or np.ptp(level) == 0:
        return math.nan, math.nan, batches
    place = np.arange(batches, dtype=np.float64)
    rank = stats.kendalltau(place, level)
    return _slope(index, residual) * float(np.ptp(index)), float(rank.pvalue), batches


def ljung_box(d: Floats, lags: int = LJUNG_BOX_LAGS) -> tuple[float, float]:
    """Lag-1 autocorrelation and Ljung-Box p of one series (n); nan below ``lags`` + 2 values or without spread.

    Ljung and Box 1978, as statsmodels' ``acorr_ljungbox``, which takes 9 ms a series where a record has hundreds.
    """
    from scipy import special

    n = len(d)
    centred = d - d.mean() if n else d
    square = float((centred * centred).sum())
    if n < lags + 2 or square <= 1e-24 * n:
        return math.nan, math.nan
    rho = np.array([float((centred[k:] * centred[:-k]).sum()) for k in range(1, lags + 1)]) / square
    q = n * (n + 2) * float((rho**2 / (n - np.arange(1, lags + 1))).sum())
    return float(rho[0]), float(special.gammaincc(lags / 2, q / 2))


def autocorrelation(differences: list[Floats], *, alpha: float = 0.05) -> Autocorrelation:
    """Lag-1 and Ljung-Box of paired differences, one series (blocks) a process."""
    found = [ljung_box(d) for d in differences]
    found = [(lag1, p) for lag1, p in found if math.isfinite(p)]
    if not found:
        return Autocorrelation(math.nan, 0, 0, math.nan)
    lag1 = float(np.mean([rho for rho, _ in found]))
    marked = sum(p <= alpha for _, p in found)
    smallest = min(p for _, p in found)
    caution = None
    if smallest * len(found) <= alpha and lag1 > RESEMBLANCE:
        caution = Caution(
            "autocorrelated",
            f"blocks of a process resemble their neighbours (lag-1 {lag1:+.2f}, {marked} of {len(found)} processes): "
            "more processes help, more blocks help less",
        )
    return Autocorrelation(lag1, marked, len(found), smallest, caution)


def _two_states(x: Floats) -> bool:
    """Two levels explain the values: the best split takes nearly all variance, leaves 5 % on each side, and is wide."""
    x = np.sort(x)
    n = len(x)
    if n < 20:
        return False
    below = np.arange(1, n)
    sums = np.cumsum(x)[:-1]
    low, high = sums / below, (x.sum() - sums) / (n - below)
    between = below * (n - below) / n**2 * (high - low) ** 2
    between[(below < 0.05 * n) | (below > 0.95 * n)] = 0
    best = int(between.argmax())
    total = float(x.var())
    wide = (high[best] - low[best]) / float(x.mean()) > CLOCK_MOVES_PERCENT / 100
    return bool(wide and total > 0 and between[best] / total >= TWO_STATES_SHARE)


def _ramps(clock: Floats) -> bool:
    """A straight line over the blocks explains most of a process's clock (blocks), and the clock moves with it."""
    if len(clock) < 8 or clock.std() == 0:
        return False
    place = np.arange(len(clock), dtype=np.float64)
    slope = _slope(place, clock)
    explained = (slope * place.std()) ** 2 / float(clock.var())
    moved = abs(slope) * (len(clock) - 1) / float(clock.mean())
    return bool(explained >= RAMP_SHARE and moved > CLOCK_MOVES_PERCENT / 100)


def clock_shape(grid: Grid) -> ClockShape | None:
    """Look for two states and ramps in the measured clock, arms' own levels taken out; None where none was measured.

    Uses every whole block, excluded or not: what the rule removed is what this should show.
    """
    whole = grid.complete[..., None] & np.isfinite(grid.clock_mhz) & (grid.clock_mhz > 0)
    if not whole.any():
        return None
    clock = np.where(whole, grid.clock_mhz, np.nan)
    seen = clock[whole]
    mean = float(seen.mean())
    measured = whole.reshape(-1, len(grid.arms)).any(axis=0)
    level = np.full(len(grid.arms), mean)
    level[measured] = np.nanmean(clock[..., measured], axis=(0, 1))
    centred = clock - level + mean
    bimodal = _two_states(centred[whole])
    ramping = 0
    for p in range(len(grid.processes)):
        rows = whole[p].all(axis=1)
        ramping += _ramps(centred[p][rows].mean(axis=1))
    low, high = float(seen.min()), float(seen.max())
    cautions = []
    if bimodal:
        message = f"the measured clock has two states between {low:.0f} and {high:.0f} MHz"
        cautions.append(Caution("clock_bimodal", f"{message}: trust the ratio in cycles"))
    if ramping * 2 > len(grid.processes):
        message = f"the measured clock ramps in {ramping} of {len(grid.processes)} processes"
        cautions.append(Caution("clock_ramping", f"{message}: trust the ratio in cycles, warm up for longer"))
    return ClockShape(low, high, bimodal, ramping * 2 > len(grid.processes), tuple(cautions))
