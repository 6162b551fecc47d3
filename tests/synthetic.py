"""Records of arms whose true effect is known, made without a runner: what the analysis is tested on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from stats.records import ArmInfo, CellRow, ClockState, Device, Header, Record, SkipRow

H200 = Device(name="NVIDIA H200", uuid="GPU-1", compute_capability="9.0", sm_count=132)


def make_header(arms: Sequence[str], **changes: Any) -> Header:
    """A header over ``arms``: the last two are taken for reference and twin when they are named so."""
    twin = next((arm for arm in arms if arm.endswith(".twin")), None)
    reference = twin.removesuffix(".twin") if twin else arms[-1]
    facts: dict[str, Any] = {
        "tool": "gemm-bench",
        "created_utc": "2026-01-01T00:00:00Z",
        "run_id": "run-1",
        "device": H200,
        "source_hash": "aaaa",
        "seed": 1,
        "clocks": ClockState(requested="auto", effective="monitor", label="monitored, not locked"),
        "arms": [ArmInfo(name=arm) for arm in arms],
        "reference": reference,
        "twin": twin,
        "comparisons": [(arm, reference) for arm in arms if arm not in (reference, twin)],
        "processes": 8,
        "blocks": 20,
        "workload": {"shape": [4096, 4096, 4096], "dtype": "bf16"},
    }
    return Header(**(facts | changes))


def make_record(
    effects: Mapping[str, float],
    *,
    processes: int = 8,
    blocks: int = 20,
    within: float = 0.01,
    between: float = 0.001,
    clock_mhz: Mapping[str, float] | None = None,
    seed: int = 0,
    skips: Mapping[str, str] | None = None,
    **header: Any,
) -> Record:
    """A record of arms with true log effects ``effects`` in cycles, scatter within and between processes.

    ``clock_mhz`` gives arms their own clock (1,500 MHz otherwise), and so a time ratio unlike that in cycles.
    """
    rng = np.random.default_rng(seed)
    arms = list(effects)
    clocks = clock_mhz or {}
    declared = [*arms, *(skips or {})]
    record = Record(header=make_header(declared, processes=processes, blocks=blocks, **header))
    for arm, reason in (skips or {}).items():
        record.add(SkipRow(arm=arm, reason=reason))
    for process in range(processes):
        own = dict(zip(arms, rng.normal(0, between, len(arms)), strict=True))
        level = rng.normal(0, 0.02)
        for block in range(blocks):
            for position, i in enumerate(rng.permutation(len(arms))):
                arm = arms[int(i)]
                cycles = 1e6 * float(np.exp(effects[arm] + own[arm] + level + rng.normal(0, within)))
                clock = clocks.get(arm, 1500.0)
                record.add(
                    CellRow(
                        process=process,
                        block=block,
                        position=position,
                        arm=arm,
                        launches=10,
                        time_ns=10 * cycles / clock * 1e3,
                        sm_cycles=10 * cycles,
                        clock_mhz=clock,
                        started_s=0.5 + 0.02 * (block * len(arms) + position),
                    )
                )
    return record


def changed(record: Record, change: Callable[[CellRow], CellRow | None]) -> Record:
    """``record`` with every cell as ``change`` makes it; a cell that it makes None is gone."""
    cells = [change(cell) for cell in record.cells]
    return replace(record, cells=[cell for cell in cells if cell is not None])
