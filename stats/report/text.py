"""How a figure and its interval are written, the same in every table, caption and sentence.

The trap: digits are a claim. Two significant digits of the half-width are shown; more would be noise.
"""

from __future__ import annotations

import math

from stats.analysis.effect import Inference
from stats.analysis.levels import Level
from stats.analysis.results import Comparison
from stats.analysis.verdicts import Verdict

MOST_DECIMALS = 4


def decimals_for(half_width: float) -> int:
    """Decimals that show two significant digits of a half-width; 2 where there is none."""
    if not (math.isfinite(half_width) and half_width > 0):
        return 2
    return max(0, min(MOST_DECIMALS, 1 - math.floor(math.log10(half_width))))


def level_text(level: Level) -> str:
    """``24.050 ±0.012``; the bare mean where no interval could be made."""
    return level.text(f".{decimals_for(level.half_width)}f")


def effect_text(found: Inference) -> str:
    """``+2.13 % [+1.98, +2.28]``; "–" where it is untestable, since a number there would read as a finding."""
    if found.untestable or found.t is None:
        return "–"
    spec = f"+.{decimals_for(found.half_width_percent)}f"
    low, high = found.t.percent
    return f"{found.effect_percent:{spec}} % [{low:{spec}}, {high:{spec}}]"


def verdict_text(comparison: Comparison) -> str:
    """The verdicts that hold; beside INCONCLUSIVE what could have been detected."""
    text = ", ".join(verdict.value for verdict in comparison.verdicts)
    found = comparison.inference
    if Verdict.INCONCLUSIVE in comparison.verdicts and math.isfinite(found.minimum_detectable_percent):
        text += f" (detectable: {found.minimum_detectable_percent:.2g} %)"
    return text
