"""A record of ``micro-bench contention`` from a made-up SM with known costs, for tests without a GPU.

A pass takes 24 cycles for its mma; each instruction, and each copy, adds its cost in sub-partition cycles, or, without
mma, its cycles of the port; the first copy of a pass adds 2 cycles more.
"""

from __future__ import annotations

from collections.abc import Callable

from micro.contention import ARMS, REFERENCE, Arm, ContentionConfig
from stats.records import ArmInfo, CellRow, ClockState, Device, Header, ProcessRow, Record, SkipRow

H200 = Device(name="NVIDIA H200", uuid="GPU-0", compute_capability="9.0", sm_count=132)
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
    config = ContentionConfig()
    header = Header(
        tool="micro-bench contention",
        created_utc="2026-01-01T00:00:00Z",
        run_id="test",
        device=H200,
        config=config.model_dump(mode="json"),
        seed=config.seed,
        clocks=ClockState(requested="auto", effective="monitor", label="monitored, not locked"),
        arms=[ArmInfo(name=arm.name, static=arm.static()) for arm in ARMS]
        + [ArmInfo(name=f"{REFERENCE}.twin", static=ARMS[0].static())],
        reference=REFERENCE,
        twin=f"{REFERENCE}.twin",
        processes=processes,
        blocks=2,
        workload={"kernel": "contention", "blocks_per_sm": 1},
    )
    record = Record(header=header)
    for name in skipped:
        record.add(SkipRow(name, "needs more shared memory"))
    cells = [(arm.name, arm) for arm in ARMS if arm.name not in skipped] + [(f"{REFERENCE}.twin", ARMS[0])]
    for process in range(processes):
        record.add(ProcessRow(process, "start"))
        for block in range(2):
            for position, (name, arm) in enumerate(cells):
                value = cycles(arm) * (1 + 1e-4 * (process - 0.5)) + 0.5 * block
                row = CellRow(process, block, position, name, 1, 1e5, 2e5, 1980.0, values={"cycles_per_pass": value})
                record.add(row)
        record.add(ProcessRow(process, "end"))
    return record
