"""Records of arms whose true effect is known, made without a runner: what the analysis is tested on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from stats.record.schema import CellRow, Header, Record, SkipRow
from tests.makers.rows import H200, header


def make_header(arms: Sequence[str], **changes: Any) -> Header:
    """The header of a GEMM run over ``arms``."""
    workload = {"shape": [4096, 4096, 4096], "dtype": "bf16"}
    facts = {"tool": "gemm-bench", "device": H200, "source_hash": "aaaa", "processes": 8, "blocks": 20}
    return header(**{"arms": arms, **facts, "workload": workload, **changes})


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
    **facts: Any,
) -> Record:
    """A record of arms with true log effects ``effects`` in cycles, scatter within and between processes.

    ``clock_mhz`` gives arms their own clock (1,500 MHz otherwise), and so a time ratio unlike that in cycles.
    """
    rng = np.random.default_rng(seed)
    arms = list(effects)
    clocks = clock_mhz or {}
    declared = [*arms, *(skips or {})]
    record = Record(header=make_header(declared, processes=processes, blocks=blocks, **facts))
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
