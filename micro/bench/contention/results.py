"""From a record of ``micro-bench contention`` to its table, and to what one instruction costs beside mma.

``cost``, in the table and in JSON: (T of the arm - T of the arm beside it) over the instructions that it has more, in
cycles of a sub-partition, from pairs of cells of one block; the interval is over processes. The trap: mma alone differ
from nothing by the tensor cores' rate, so an arm without mma has a cost only for its copies; and the first copy of a
pass brings void loads and, where no /c0 arm is, commit and wait, so it is told apart from the next.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

from micro.bench.contention.design import ARMS, COPIES, REFERENCE, Arm, arm_called
from micro.gpu.device import mma_floor_cycles_per_kstep
from micro.gpu.limits import SUB_PARTITIONS
from stats.analysis.levels import ArmLevels, Level, level_of
from stats.analysis.prepare import accepted_cells
from stats.base.tables import Column
from stats.record.schema import CellRow, Record

_ARM_COLUMNS = [
    Column("arm", "arm", align="left"),
    Column("instructions", "instr.", "d", min_width=130),  # these three are in the arm's name, too
    Column("mmas", "mma", "d", min_width=130),
    Column("copies", "copies", "d", min_width=130),
]
COLUMNS = [
    *_ARM_COLUMNS,
    Column("cycles", "cycles/pass"),
    Column("floor", "floor", ".2f"),
    Column("over_percent", "over %", "+.1f"),
    Column("cost", "cost"),
    Column("base", "beyond", align="left"),
    Column("cycles_per_pass", "mean", ".3f", min_width=160),
    Column("low", "low", ".3f", min_width=160),
    Column("high", "high", ".3f", min_width=160),
]
DATA_COLUMNS = [*COLUMNS, Column("cost_cycles", "cost, unrounded")]  # for programs
UNITS_LINES = [
    "cycles/pass: SM cycles per warp pass (16 warps), 95 % interval, ± rounded up; floor: the larger of the load "
    "port's cycles and, with mma, the mma alone as measured; what cp.async brings is not in it.",
    "cost: cycles of a sub-partition that each further instruction adds to the arm named beside it; of /c0 the commit "
    "and the wait of an empty group, of /c1 the first copy of a pass with the three void loads that the compiler sets "
    "before it (beyond an arm without /c0: with commit and wait, too), of /c2 and /c4 each copy more.",
]
PREDICTION_COLUMNS = [
    *_ARM_COLUMNS,
    Column("port", "load port (cycles/pass)", "d"),
    *(Column(f"tensor_{arch}", f"tensor cores, sm_{arch}", ".0f") for arch in (80, 90)),
    *(Column(f"floor_{arch}", f"floor, sm_{arch}", ".0f") for arch in (80, 90)),
]


def _per_pass(cell: CellRow) -> float:
    return float(cell.values.get("cycles_per_pass", math.nan))


class Costs:
    """Levels of arms and of differences between them, over the accepted blocks of one record."""

    def __init__(self, record: Record) -> None:
        self._levels = ArmLevels(record)
        self._cells: dict[str, dict[tuple[int, int], float]] = defaultdict(dict)
        for cell in accepted_cells(record):
            self._cells[cell.arm][cell.process, cell.block] = _per_pass(cell)

    def __contains__(self, arm: str) -> bool:
        return arm in self._cells

    def cycles(self, arm: str) -> Level:
        """SM cycles per warp pass."""
        return self._levels.of(arm, _per_pass)

    def _between(self, arm: str, base: str, added: int) -> Level:
        """Sub-partition cycles that each of ``added`` instructions costs: ``arm`` less ``base``, block by block."""
        by_process: dict[int, list[float]] = defaultdict(list)
        for at, cycles in self._cells[arm].items():
            by_process[at[0]].append(SUB_PARTITIONS * (cycles - self._cells[base][at]) / added)
        return level_of([by_process[process] for process in sorted(by_process)])

    def of(self, arm: Arm) -> Level | None:
        """The cost of the arm's part, None where it has no base or the record lacks one of the two."""
        if arm.base is None or arm.name not in self or arm.base.name not in self:
            return None
        return self._between(arm.name, arm.base.name, arm.added)


def costs_beside_mma(record: Record) -> dict[str, dict[str, Any]]:
    """By kind, the row of the table that says what one instruction costs while mma follow each other without a gap.

    Of each kind that at its smallest number in a pass, of cp.async that of the second copy. Keys: ``arm``, ``base``,
    ``cost_cycles``, ``low``, ``high`` (95 % over processes, nan where no interval can be made), of a sub-partition.
    Kinds that the record lacks are absent.
    """
    costs = Costs(record)
    chosen: dict[str, Arm] = {}
    for arm in ARMS:
        present = arm.with_mma and arm.copies is None and arm.instructions and arm.name in costs
        if present and (arm.kind.name not in chosen or arm.instructions < chosen[arm.kind.name].instructions):
            chosen[arm.kind.name] = arm
    chosen[COPIES] = Arm(copies=2)
    found = {}
    for kind, arm in chosen.items():
        cost = costs.of(arm)
        if arm.base and cost:
            figures = {"cost_cycles": cost.mean, "low": cost.low, "high": cost.high}
            found[kind] = {"arm": arm.name, "base": arm.base.name, **figures}
    return found


def contention_rows(record: Record) -> list[dict[str, Any]]:
    """One row an arm of the record, without the twin; figures that it lacks are None."""
    costs = Costs(record)
    alone = costs.cycles(REFERENCE).mean if REFERENCE in costs else math.nan
    rows = []
    for name in record.arm_names:
        arm = arm_called(name)
        if arm is None or name not in costs:
            continue
        cycles, cost = costs.cycles(name), costs.of(arm)
        floor = _floor(arm, alone)
        rows.append(
            {
                **_facts(arm),
                "cycles": cycles.text(".3f"),
                "cycles_per_pass": cycles.mean,
                "low": cycles.low,
                "high": cycles.high,
                "floor": floor,
                "over_percent": 100 * (cycles.mean / floor - 1),
                "cost": cost.text() if cost else None,
                "cost_cycles": cost.mean if cost else None,
                "base": arm.base.name if cost and arm.base else None,
            }
        )
    return rows


def _floor(arm: Arm, alone: float) -> float:
    """SM cycles a pass that port and mma (``alone``, as measured) allow; nan where neither is known."""
    if not arm.with_mma:
        return float(arm.port_cycles) or math.nan
    return math.nan if math.isnan(alone) else max(float(arm.port_cycles), alone)


def _facts(arm: Arm) -> dict[str, Any]:
    return {"arm": arm.name, "instructions": arm.instructions, "mmas": arm.mmas, "copies": arm.copies}


def prediction_rows() -> list[dict[str, Any]]:
    """The ceilings of each arm: cycles of the load port, and of tensor cores at the highest published rate."""
    rows = []
    for arm in ARMS:
        row: dict[str, Any] = {**_facts(arm), "port": arm.port_cycles}
        for arch, capability in ((80, "8.0"), (90, "9.0")):
            tensor = mma_floor_cycles_per_kstep(capability, arm.mmas) or 0.0
            row |= {f"tensor_{arch}": tensor, f"floor_{arch}": max(tensor, float(arm.port_cycles))}
        rows.append(row)
    return rows
