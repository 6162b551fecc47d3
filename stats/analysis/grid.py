"""Where does each cell of a record stand? A record in; arrays over process, block and arm out.

The cells are laid out as (processes, blocks, arms), per launch, nan where a cell is missing. A block without all its
arms is dropped and counted: half a pair says nothing. The trap: a process that was repeated has cells under the same
process number; the first whole attempt is used, never the last, or a run could be repeated until it pleased.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stats.analysis.intervals import Floats
from stats.base.errors import UserError
from stats.record.attempts import complete_attempts
from stats.record.schema import CellRow, Record

Metric: TypeAlias = Literal["time", "cycles"]
Flags: TypeAlias = NDArray[np.bool_]
Index: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Grid:
    """The cells of one record as arrays of shape (P processes, B blocks, A arms); figures are per launch.

    ``complete`` (P, B) marks the blocks in which every arm ran. ``reasons`` (P, B, A) indexes ``reason_sets``, the
    distinct tuples of throttle reasons. ``accepted`` (P, B) starts as ``complete`` and is narrowed by the blind rule.
    """

    arms: tuple[str, ...]
    processes: tuple[int, ...]
    time_ns: Floats
    sm_cycles: Floats
    clock_mhz: Floats
    position: Floats
    started_s: Floats
    others: Floats
    reasons: Index
    reason_sets: tuple[tuple[str, ...], ...]
    complete: Flags
    accepted: Flags
    incomplete_blocks: int = 0
    unused_attempts: int = 0
    unused_cells: int = 0
    absent_arms: tuple[str, ...] = ()
    blocks: tuple[int, ...] = ()  # their numbers in the record, along the second axis
    attempts: tuple[int, ...] = ()  # of each process, the attempt that counts

    def metric(self, metric: Metric) -> Floats:
        """The figures of ``metric`` (P, B, A), per launch: nanoseconds, or SM cycles."""
        return self.time_ns if metric == "time" else self.sm_cycles

    def arm(self, name: str) -> int:
        """Index of the arm ``name`` along the last axis."""
        return self.arms.index(name)

    def accept(self, accepted: Flags) -> Grid:
        """The same cells with other accepted blocks (P, B)."""
        return replace(self, accepted=accepted & self.complete)


def _column(cells: Sequence[CellRow], get: Callable[[CellRow], Any], dtype: type) -> NDArray[Any]:
    return np.fromiter((get(cell) for cell in cells), dtype=dtype, count=len(cells))


def _chosen_attempts(record: Record, process: Index, attempt: Index, block: Index, arms: int) -> Flags:
    """Cells of the attempt that counts: the complete one, or, of a process without, the one with most whole blocks."""
    chosen = np.ones(len(process), dtype=bool)
    if not attempt.any():
        return chosen
    complete = complete_attempts(record)
    for label in np.unique(process):
        of_process = process == label
        best = complete.get(int(label))
        if best is None:
            whole = {
                int(which): int(
                    (np.unique(block[of_process & (attempt == which)], return_counts=True)[1] >= arms).sum()
                )
                for which in np.unique(attempt[of_process])
            }
            best = max(whole, key=lambda which: (whole[which], -which))
        chosen &= ~of_process | (attempt == best)
    return chosen


def _arm_index(record: Record) -> tuple[tuple[str, ...], tuple[str, ...], Index]:
    """Arms that ran, declared arms that left neither a cell nor a reason, and the arm of every cell."""
    ran = {cell.arm for cell in record.cells}
    unknown = sorted(ran - set(record.arm_names))
    if unknown:
        raise UserError(f"{record.name}: has cells of arm '{unknown[0]}', which its header does not declare")
    arms = tuple(name for name in record.arm_names if name in ran)
    skipped = {skip.arm for skip in record.skips}
    absent = tuple(name for name in record.arm_names if name not in ran and name not in skipped)
    number = {name: i for i, name in enumerate(arms)}
    return arms, absent, _column(record.cells, lambda cell: number[cell.arm], np.int64)


def lay_out(record: Record) -> Grid:
    """Lay the cells of ``record`` out as a Grid; raises UserError for a cell of an undeclared arm or a doubled cell."""
    arms, absent, arm = _arm_index(record)
    cells = record.cells
    process, block, attempt = (
        _column(cells, get, np.int64) for get in (lambda c: c.process, lambda c: c.block, lambda c: c.attempt)
    )
    chosen = _chosen_attempts(record, process, attempt, block, len(arms))
    unused = {(int(p), int(a)) for p, a in zip(process[~chosen], attempt[~chosen], strict=True)}
    labels, row = np.unique(process[chosen], return_inverse=True)
    blocks, column = np.unique(block[chosen], return_inverse=True)
    where = (row, column, arm[chosen])
    shape = (len(labels), len(blocks), len(arms))
    count = np.zeros(shape, dtype=np.int64)
    np.add.at(count, where, 1)
    if (count > 1).any():
        p, b, a = (int(i[0]) for i in np.nonzero(count > 1))
        raise UserError(
            f"{record.name}: process {labels[p]}, block {blocks[b]} has arm '{arms[a]}' twice; remove one of the lines"
        )

    def place(get: Callable[[CellRow], Any]) -> Floats:
        values = np.full(shape, np.nan)
        values[where] = _column(cells, get, np.float64)[chosen]
        return values

    codes: dict[tuple[str, ...], int] = {(): 0}
    of_cell = _column(cells, lambda c: codes.setdefault(c.throttle_reasons, len(codes)), np.int64)
    reasons = np.zeros(shape, dtype=np.int64)
    reasons[where] = of_cell[chosen]
    launches = place(lambda c: c.launches or np.nan)
    complete: Flags = np.asarray((count > 0).all(axis=2)) & bool(arms)
    return Grid(
        arms=arms,
        processes=tuple(int(label) for label in labels),
        time_ns=place(lambda c: c.time_ns) / launches,
        sm_cycles=place(lambda c: c.sm_cycles) / launches,
        clock_mhz=place(lambda c: c.clock_mhz),
        position=place(lambda c: c.position),
        started_s=place(lambda c: c.started_s),
        others=place(lambda c: c.other_processes),
        reasons=reasons,
        reason_sets=tuple(codes),
        complete=complete,
        accepted=complete,
        incomplete_blocks=int(((count > 0).any(axis=2) & ~complete).sum()),
        unused_attempts=len(unused),
        unused_cells=int((~chosen).sum()),
        absent_arms=absent,
        blocks=tuple(int(number) for number in blocks),
        attempts=tuple(int(attempt[chosen & (process == label)][0]) for label in labels),
    )
