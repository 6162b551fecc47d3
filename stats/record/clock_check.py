"""Did a lock of the clocks hold, by the clock that the cells themselves measured? From a record alone.

A lock call that succeeds proves nothing; the measured clock decides.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from stats.record.schema import ClockState, Record

HOLD_TOLERANCE_PERCENT = 1.0  # one step of the SM clock is 15 MHz, 0.75 % at 2 GHz


@dataclass(frozen=True)
class ClockCheck:
    """Whether a lock held, by the measured clock: ``held`` is None where nothing was locked or nothing measured."""

    held: bool | None
    label: str
    target_mhz: float = math.nan
    lowest_mhz: float = math.nan
    highest_mhz: float = math.nan
    cells: int = 0
    cells_off: int = 0


def check_clocks(
    state: ClockState, clock_mhz: Iterable[float], *, tolerance_percent: float = HOLD_TOLERANCE_PERCENT
) -> ClockCheck:
    """Judge a lock by the average SM clocks (MHz) that the cells measured: HELD only if every one is within tolerance.

    A lock at the symbolic base clock has no number; there the median of the cells takes its place, so that a clock that
    moves is still found. ``label`` is ``state.label`` with the verdict added.
    """
    measured = sorted(mhz for mhz in clock_mhz if math.isfinite(mhz))
    if not measured:
        held_unknown = f"{state.label}; NOT VERIFIED, no measured clock" if state.effective == "lock" else state.label
        return ClockCheck(held=None, label=held_unknown)
    lowest, highest = measured[0], measured[-1]
    spread = f"{lowest:.0f}–{highest:.0f} MHz measured"
    if state.effective != "lock":
        label = f"{state.label}; {spread}"
        return ClockCheck(None, label, lowest_mhz=lowest, highest_mhz=highest, cells=len(measured))
    target = float(state.locked_sm_mhz) if state.locked_sm_mhz is not None else measured[len(measured) // 2]
    off = sum(abs(mhz - target) > target * tolerance_percent / 100 for mhz in measured)
    verdict = "HELD" if off == 0 else "NOT HELD"
    share = "" if off == 0 else f", {off} of {len(measured)} cells off by more than {tolerance_percent:g} %"
    label = f"{state.label}: {verdict} ({spread}{share})"
    return ClockCheck(off == 0, label, target, lowest, highest, len(measured), off)


def judged_label(record: Record) -> str:
    """What was done to the clocks, and for a lock whether the cells' own clock says that it held."""
    state = record.header.clocks
    if state.effective != "lock":
        return state.label
    check = check_clocks(state, (cell.clock_mhz for cell in record.cells))
    if check.held is None:
        return check.label
    off = f", {check.cells_off} of {check.cells} cells off by more than {HOLD_TOLERANCE_PERCENT:g} %"
    return f"{state.label}: {'HELD' if check.held else f'NOT HELD{off}'}"
