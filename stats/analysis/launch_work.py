"""Does a launch of one arm hold as much work as a launch of another? If not, whole launches must not be compared.

Benchmarks that choose each arm's length record what one step of its loop takes (``cycles_per_pass``) beside the launch:
the one divided by the other is the number of steps. The trap: cells are all about equally long by choice, so a
comparison of launches looks reasonable and says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from stats.base.errors import UserError
from stats.record.schema import Record

_STEP = "cycles_per_"
_ONE_SM = "_sm"  # cycles_per_pass_lowest_sm: of a single SM, where sm_cycles is the mean of all
_ALIKE = 1e-3  # steps are whole numbers; what differs by less is rounding

_Steps = tuple[str, float]  # what a step is called, and how many a launch makes


def _steps_of_launches(record: Record) -> dict[str, _Steps]:
    """By arm, from its first cell that tells; arms whose cells do not tell are absent."""
    found: dict[str, _Steps] = {}
    for cell in record.cells:
        if cell.arm in found:
            continue
        for name, cycles in cell.values.items():
            if name.startswith(_STEP) and not name.endswith(_ONE_SM) and cycles > 0 and cell.sm_cycles > 0:
                found[cell.arm] = name.removeprefix(_STEP), cell.sm_cycles / cell.launches / cycles
    return found


def _unlike(one: _Steps | None, other: _Steps | None) -> bool:
    """Both count the same kind of step and not the same number of it."""
    if one is None or other is None or one[0] != other[0]:
        return False
    return not math.isclose(one[1], other[1], rel_tol=_ALIKE)


def unlike_launches(record: Record, pairs: Sequence[tuple[str, str]]) -> str | None:
    """The first of ``pairs`` whose launches make different numbers of steps, said in one line with the remedy."""
    steps = _steps_of_launches(record)
    for a, b in pairs:
        if _unlike(steps.get(a), steps.get(b)):
            (step, of_a), (_, of_b) = steps[a], steps[b]
            return (
                f"{record.name}: launches are of unlike length ({a}: {of_a:.0f} times {_STEP}{step}, {b}: {of_b:.0f} "
                f"times); compare {_STEP}{step} instead: {record.header.tool} --record {record.path or record.name}"
            )
    return None


def refuse_unlike_work(old: Record, new: Record) -> None:
    """Raises UserError for an arm whose launches make different numbers of steps in two records."""
    before, after = _steps_of_launches(old), _steps_of_launches(new)
    for arm, (step, of_new) in after.items():
        if _unlike(before.get(arm), after[arm]):
            raise UserError(
                f"{arm}: a launch is {before[arm][1]:.0f} times {_STEP}{step} in the old record and {of_new:.0f} times "
                f"in the new; compare {_STEP}{step} in the two tables of {new.header.tool} --record"
            )
