"""Does a launch of one arm hold as much work as a launch of another? If not, whole launches must not be compared.

Benchmarks that choose each arm's length record what one step of its loop takes (``cycles_per_pass``) beside the launch:
the one divided by the other is the number of steps. The trap: cells are all about equally long by choice, so a
comparison of launches looks reasonable and says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from stats.errors import UserError
from stats.records import Record

__all__ = ["refuse_unlike_work", "steps_of_launches", "unlike_launches"]

_STEP = "cycles_per_"
_ALIKE = 1e-3  # steps are whole numbers; what differs by less is rounding


def steps_of_launches(record: Record) -> dict[str, tuple[str, float]]:
    """What a step is called and how many a launch makes, by arm; arms whose cells do not tell are absent."""
    found: dict[str, tuple[str, float]] = {}
    for cell in record.cells:
        if cell.arm in found:
            continue
        for name, cycles in cell.values.items():
            if name.startswith(_STEP) and not name.endswith("_sm") and cycles > 0 and cell.sm_cycles > 0:
                found[cell.arm] = name.removeprefix(_STEP), cell.sm_cycles / cell.launches / cycles
    return found


def unlike_launches(record: Record, pairs: Sequence[tuple[str, str]]) -> str | None:
    """The first of ``pairs`` whose launches make different numbers of steps, said in one line with the remedy."""
    steps = steps_of_launches(record)
    for a, b in pairs:
        if a not in steps or b not in steps:
            continue
        (step, ours), (other, theirs) = steps[a], steps[b]
        if step == other and not math.isclose(ours, theirs, rel_tol=_ALIKE):
            return (
                f"{record.name}: launches are of unlike length ({a}: {ours:.0f} times {_STEP}{step}, {b}: {theirs:.0f} "
                f"times), compare the cycles instead: {record.header.tool} --record {record.path or record.name}"
            )
    return None


def refuse_unlike_work(old: Record, new: Record) -> None:
    """Raises UserError for an arm whose launches make different numbers of steps in two records."""
    before, after = steps_of_launches(old), steps_of_launches(new)
    for arm, (step, ours) in after.items():
        other, theirs = before.get(arm, (step, ours))
        if step == other and not math.isclose(ours, theirs, rel_tol=_ALIKE):
            raise UserError(
                f"{arm}: a launch is {theirs:.0f} times {_STEP}{step} in the old record and {ours:.0f} times in the "
                "new; not comparable"
            )
