"""What is said of one effect: an interval, all figures of one comparison, and how log-ratios and p-values are written.

Plain data without numpy or scipy; ``stats.analysis.inference`` computes them and passes these names on. The trap: theta
is a log-ratio, so per cent are 100 (e^theta - 1), never 100 theta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

Unit: TypeAlias = Literal["process", "batch", "unpaired process"]


@dataclass(frozen=True)
class Interval:
    """An interval of a log-ratio and the confidence it attains (a discrete method cannot attain every level)."""

    low: float
    high: float
    confidence: float

    @property
    def excludes_zero(self) -> bool:
        """The whole interval lies on one side of 0."""
        return self.low > 0 or self.high < 0

    def beyond(self, margin: float) -> bool:
        """The whole interval lies above +margin or below -margin (log-ratio)."""
        return self.low > margin or self.high < -margin

    def inside(self, margin: float) -> bool:
        """The whole interval lies between -margin and +margin (log-ratio)."""
        return -margin < self.low and self.high < margin

    @property
    def percent(self) -> tuple[float, float]:
        """The two ends as 100 (e^x - 1) %."""
        return percent(self.low), percent(self.high)


@dataclass(frozen=True)
class Inference:
    """All that one comparison says; log-ratios unless the name says otherwise, nan or None where nothing can be said.

    ``n`` counts units (the smaller side when unpaired), ``spread`` is the standard deviation between them. ``t`` is
    the primary interval and ``hl`` its Hodges-Lehmann companion; the ``_tost`` pair has confidence 1 - 2 alpha,
    ``t_simultaneous`` the Bonferroni level of a family of ``family`` comparisons. ``p`` is exact, ``p_minimum`` the
    smallest it can be, ``p_holm`` adjusted for the family. ``untestable`` is the reason for having no verdict.
    """

    unit: Unit
    n: int
    alpha: float
    family: int = 1
    theta: float = math.nan
    spread: float = math.nan
    t: Interval | None = None
    t_tost: Interval | None = None
    t_simultaneous: Interval | None = None
    hl_theta: float = math.nan
    hl: Interval | None = None
    hl_tost: Interval | None = None
    p: float = math.nan
    p_minimum: float = math.nan
    p_holm: float = math.nan
    minimum_detectable: float = math.nan
    untestable: str | None = None

    @property
    def effect_percent(self) -> float:
        """The estimate as 100 (e^theta - 1) %."""
        return percent(self.theta)

    @property
    def half_width_percent(self) -> float:
        """Half the width of the primary interval in per cent; nan without one."""
        return percent((self.t.high - self.t.low) / 2) if self.t else math.nan

    @property
    def minimum_detectable_percent(self) -> float:
        """The smallest effect that this many units with this spread would find with power 0.8, in per cent."""
        return percent(self.minimum_detectable)


def percent(log_ratio: float) -> float:
    """Turn a log-ratio into a per cent change, 100 (e^x - 1)."""
    return 100 * math.expm1(log_ratio) if log_ratio < 700 else math.inf


def log_margin(margin_percent: float) -> float:
    """Turn a margin in per cent into a log-ratio, log(1 + margin/100): one bound for a/b and b/a alike."""
    return math.log1p(margin_percent / 100)


def format_p(p: float, resolution: float = 1e-4) -> str:
    """Print a p-value: "<1e-k" below the resolution (never 0), "-" where there is none."""
    if not math.isfinite(p):
        return "-"
    if p < resolution:
        return f"<1e{math.floor(math.log10(resolution) + 1e-9)}"
    return f"{p:.4f}" if p < 0.01 else f"{p:.3f}"
