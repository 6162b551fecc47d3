"""How is a record to be read? One of a few named situations per arm and pair, and the rule that chose it.

A reading guide as rules over measured figures: L, M, T of the micro-benchmark, the GEMM's cycles and its ceilings. A
ceiling explains a time when it is at least EXPLAINS of it; of several the highest counts. The trap: "hidden" is claimed
only where an interval allows it, so an arm without one is not resolved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from gemm.explain.relief import relief_text
from stats.analysis.levels import Level
from stats.base.tables import Column

EXPLAINS = 0.90  # share of a time that a ceiling must reach to explain it
RELIEF_PERCENT, RELIEF_LEAD = 5.0, 1.5  # what a resource twice as fast must save, and how far ahead of the next
COLUMNS = [
    Column("arm", "arm or pair", align="left"),
    Column("measured", "measured", min_width=100),
    Column("situation", "situation", align="left"),
    Column("rule", "rule", align="left"),
]


class Situation(str, Enum):
    """What explains a measured time."""

    TENSOR = "hidden by tensor"
    PORT = "bound by the port"
    ISSUE = "bound by issue"
    L2 = "bound by L2"
    NOT_RESOLVED = "not resolved"


_OF = {"tensor": Situation.TENSOR, "port": Situation.PORT, "issue": Situation.ISSUE, "L2": Situation.L2}


@dataclass(frozen=True)
class Reading:
    """A situation and, in one sentence with its figures, the rule that chose it."""

    situation: Situation
    rule: str


def read_time(
    measured: Level | None, ceilings: Mapping[str, float], relief: Mapping[str, float] | None = None
) -> Reading:
    """The situation of a time from its ceilings (tensor, port, issue, L2; all in the unit of ``measured``).

    The highest ceiling must reach EXPLAINS of the upper end of the interval; the time's lower end must not lie more
    than 2 % below it, for then the ceiling itself is wrong. Where no ceiling explains the time, ``relief`` (per cent
    that each resource would save in the simulator if it were twice as fast) decides: at least RELIEF_PERCENT, and
    RELIEF_LEAD times the next. Tensor cores that would save most there hide nothing: their work and the rest follow
    each other.
    """
    if measured is None or measured.half_width != measured.half_width:
        return Reading(Situation.NOT_RESOLVED, "no interval: fewer than two processes or batches")
    name, cycles = max(ceilings.items(), key=lambda item: item[1])
    if measured.low < 0.98 * cycles:
        return Reading(
            Situation.NOT_RESOLVED, f"measured {measured.mean:.2f} is below its own {name} ceiling of {cycles:.2f}"
        )
    share = cycles / measured.high
    if share >= EXPLAINS:
        return Reading(_OF[name], f"{name} {cycles:.2f} is the highest ceiling and {100 * share:.0f} % of the time")
    unexplained = f"the highest ceiling, {name} {cycles:.2f}, is {100 * share:.0f} % of the time"
    if not relief:
        return Reading(Situation.NOT_RESOLVED, f"{unexplained}: latency and barriers, or what no ceiling here counts")
    ranked = sorted(relief.items(), key=lambda item: -item[1])
    (first, most), (_, next_most) = ranked[:2]
    clear = most >= RELIEF_PERCENT and most >= RELIEF_LEAD * max(next_most, 0.0)
    said = f"{unexplained}; twice as fast would save, simulated: {relief_text(dict(ranked))}"
    if clear and first == "tensor":
        busy = 100 * ceilings["tensor"] / measured.mean
        return Reading(Situation.NOT_RESOLVED, f"{said}; yet they hide nothing, busy {busy:.0f} % of the time")
    return Reading(_OF[first] if clear else Situation.NOT_RESOLVED, said)


def read_pair(effect: tuple[float, float, float] | None, a: Reading, b: Reading, margin_percent: float) -> Reading:
    """The situation of a comparison from its effect (a against b: per cent, low, high) and the readings of its arms.

    An effect inside the margin is hidden by, or bound by, what binds both arms; an effect on one side of zero belongs
    to what binds the slower arm, unless that is the tensor cores: they have the same mma to do in both arms, and what
    shows is not hidden. Anything else is not resolved.
    """
    if effect is None:
        return Reading(Situation.NOT_RESOLVED, "no interval for this comparison")
    mean, low, high = effect
    said, margin = f"{mean:+.2f} % [{low:+.2f}, {high:+.2f}]", f"±{margin_percent:g} %"
    if -margin_percent < low and high < margin_percent:
        if a.situation is b.situation:
            return Reading(a.situation, f"{said} lies inside {margin}, and both arms are {a.situation.value}")
        return Reading(Situation.NOT_RESOLVED, f"{said} lies inside {margin}, but different things bind the arms")
    if low > 0 or high < 0:
        slower = a if mean > 0 else b
        if slower.situation is Situation.TENSOR:
            said = f"{said} shows, so nothing hides it, and both arms have the same mma"
            return Reading(Situation.NOT_RESOLVED, f"{said}; the slower arm: {slower.rule}")
        return Reading(slower.situation, f"{said}; the slower arm: {slower.rule}")
    return Reading(Situation.NOT_RESOLVED, f"{said} straddles zero and leaves {margin}: more processes needed")


def guide_rows(read: Sequence[tuple[str, Level | None, Reading]]) -> list[dict[str, Any]]:
    """One row per (arm or pair, measured level, reading)."""
    return [
        {
            "arm": arm,
            "measured": level.text(".3f") if level else None,
            "situation": reading.situation.value,
            "rule": reading.rule,
        }
        for arm, level, reading in read
    ]
