"""What does one more wavefront cost, and does the line predict an access pattern that it has never seen?

Per instruction, ordinary least squares of cycles on wavefronts over the regular conflict degrees, one point a pattern
(the mean of its processes): cycles = base + slope * (wavefronts - least), so that ``base`` is the conflict-free figure.
Broadcast and random patterns are kept out and test the rule. The trap: these points have almost no noise, so a narrow
interval proves nothing about the shape; a residual that is large in cycles says that the line is wrong, and is flagged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LEVEL = 0.95
WORST_RESIDUAL_CYCLES = 0.5
WORST_RESIDUAL_PERCENT = 2.0


@dataclass(frozen=True)
class Line:
    """cycles = base_cycles + cycles_per_wavefront * (wavefronts - least_wavefronts), with 95 % t intervals."""

    least_wavefronts: int
    base_cycles: float
    base_interval: tuple[float, float]
    cycles_per_wavefront: float
    slope_interval: tuple[float, float]
    points: int
    worst_residual_cycles: float
    warnings: tuple[str, ...] = ()

    def predict(self, wavefronts: float) -> float:
        """Cycles for a pattern of so many wavefronts."""
        return self.base_cycles + self.cycles_per_wavefront * (wavefronts - self.least_wavefronts)


def _no_line(least: int, points: int, why: str) -> Line:
    nan = (math.nan, math.nan)
    return Line(least, math.nan, nan, math.nan, nan, points, math.nan, (why,))


def fit_line(wavefronts: Sequence[float], cycles: Sequence[float], least_wavefronts: int) -> Line:
    """Least squares (scipy.stats.linregress) over one point a pattern, with t intervals on n-2 degrees of freedom.

    Fewer than three distinct wavefront counts, or a figure that is not finite, give no line and a warning that says
    why. A residual above 0.5 cycles and 2 % of its figure is a warning: cycles are not linear in wavefronts there.
    """
    from scipy import stats

    x = np.asarray(wavefronts, dtype=np.float64) - least_wavefronts
    y = np.asarray(cycles, dtype=np.float64)
    if x.shape != y.shape or x.ndim != 1:
        raise ValueError(f"wavefronts of shape {x.shape} and cycles of shape {y.shape}: one of each per pattern")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        return _no_line(least_wavefronts, len(x), "a figure is not finite: no line")
    if len(np.unique(x)) < 3:
        return _no_line(least_wavefronts, len(x), f"{len(np.unique(x))} wavefront counts: a tested line needs 3")
    found = stats.linregress(x, y)
    t = float(stats.t.ppf(0.5 + LEVEL / 2, len(x) - 2))
    slope, base = float(found.slope), float(found.intercept)
    slope_half, base_half = t * float(found.stderr), t * float(found.intercept_stderr)
    residuals = np.abs(y - (base + slope * x))
    wrong = (residuals > WORST_RESIDUAL_CYCLES) & (residuals > WORST_RESIDUAL_PERCENT / 100 * np.abs(y))
    warnings = tuple(
        f"not a line: {int(x[i]) + least_wavefronts} wavefronts took {y[i]:.2f} cycles, "
        f"the line says {base + slope * x[i]:.2f}"
        for i in np.flatnonzero(wrong)
    )
    return Line(
        least_wavefronts,
        base,
        (base - base_half, base + base_half),
        slope,
        (slope - slope_half, slope + slope_half),
        len(x),
        float(residuals.max()),
        warnings,
    )


@dataclass(frozen=True)
class Unseen:
    """The line against patterns that it was not fitted to."""

    patterns: int
    mean_absolute_error_percent: float
    worst_error_percent: float  # signed: positive where the line says too much
    worst_pattern: str


def errors_on_unseen(line: Line, patterns: Sequence[tuple[str, float, float]]) -> Unseen:
    """Errors of the line on (name, wavefronts, measured cycles); nan where there is no line or no pattern."""
    if not patterns or not math.isfinite(line.base_cycles):
        return Unseen(len(patterns), math.nan, math.nan, "")
    errors = [100 * (line.predict(w) / measured - 1) for _, w, measured in patterns]
    worst = max(range(len(errors)), key=lambda i: abs(errors[i]))
    return Unseen(len(errors), float(np.mean(np.abs(errors))), errors[worst], patterns[worst][0])
