"""A record of ``micro-bench contention`` from a made-up SM with known costs, for tests without a GPU.

A pass takes 24 cycles for its mma; each instruction, and each copy, adds its cost in sub-partition cycles, or, without
mma, its cycles of the port; the first copy of a pass adds 2 cycles more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from micro.bench.contention.design import ARMS, REFERENCE, Arm, ContentionConfig
from stats.record.schema import ArmInfo, Record, SkipRow
from tests.makers.rows import H200, filled, header

COST = {"none": 0, "ld.shared.b32": 1.0, "ld.shared.b16": 1.1, "ldmatrix.x4": 1.2, "ldmatrix.x2": 0.4}
COST |= {"ldmatrix.x2.trans": 0.5, "st.shared.b32": 2.9, "prmt": 0.6, "cp.async": 4.0}
FIRST_COPY = 2.0


def cycles_of(arm: Arm) -> float:
    own = arm.instructions * COST[arm.kind.name] / 4
    copies = (arm.copies or 0) * COST["cp.async"] / 4 + (FIRST_COPY if arm.copies else 0)
    return (24.0 + own if arm.with_mma else arm.instructions * max(0.5, arm.kind.port_cycles)) + copies


def make_record(
    cycles: Callable[[Arm], float] = cycles_of, skipped: tuple[str, ...] = ("cp.async/c4+mma",), processes: int = 2
) -> Record:
    """Two blocks a process; a process, and within it a block, is a little slower than the one before it."""
    config, twin = ContentionConfig(), f"{REFERENCE}.twin"
    made = header(
        [ArmInfo(name=arm.name, static=arm.static()) for arm in ARMS] + [ArmInfo(name=twin, static=ARMS[0].static())],
        tool="micro-bench contention", device=H200, config=config.model_dump(mode="json"), seed=config.seed,
        comparisons=[], processes=processes, workload={"kernel": "contention", "blocks_per_sm": 1},
    )  # fmt: skip
    cells = {arm.name: arm for arm in ARMS if arm.name not in skipped} | {twin: ARMS[0]}

    def facts(name: str, process: int, block: int) -> dict[str, Any]:
        value = cycles(cells[name]) * (1 + 1e-4 * (process - 0.5)) + 0.5 * block
        return {"time_ns": 1e5, "sm_cycles": 2e5, "clock_mhz": 1980.0, "values": {"cycles_per_pass": value}}

    return filled(made, list(cells), facts, [SkipRow(name, "needs more shared memory") for name in skipped])
