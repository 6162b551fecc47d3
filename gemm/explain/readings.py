"""Which arms of the records can be read, and against which ceilings each?

Micro load+mma: tensor (M), port (L), issue. GEMM: tensor, port with the copies, L2, issue. The stream run has its own
table. The trap: a ceiling and the time that it explains must come from the same residency.
"""

from __future__ import annotations

import math
from typing import Any

from gemm.explain.evidence import Evidence
from gemm.explain.kernels import micro_program
from gemm.explain.machine import SUB_PARTITIONS
from gemm.explain.roofline import roofline
from gemm.variants import Kernel
from micro.arm_names import Work
from micro.variants import VARIANTS
from stats.levels import Level, arm_level
from stats.records import Record
from stats.tables import Column

__all__ = ["STREAM_COLUMNS", "measured_arms", "stream_rows"]

STREAM_COLUMNS = [
    Column("arm", "arm", align="left"),
    Column("bytes_per_clk_per_sm", "B/clk/SM"),
    Column("cycles_per_kstep", "cycles per warp k-step"),
    Column("cycles", "cycles each"),
]


def measured_arms(arch: int, evidence: Evidence) -> list[tuple[str, Level | None, dict[str, float]]]:
    """(arm, measured level, ceilings) for every load+mma and GEMM arm that records of sm_``arch`` hold."""
    if evidence.arch != arch:
        return []
    found: list[tuple[str, Level | None, dict[str, float]]] = []
    for blocks in sorted(evidence.micro, reverse=True):
        for variant in VARIANTS:
            both = evidence.micro_level(variant, Work.LOAD_MMA, blocks)
            load = evidence.micro_level(variant, Work.LOAD, blocks)
            mma = evidence.micro_level(variant, Work.MMA, blocks)
            if both and load and mma:
                program = micro_program(variant, "load+mma", arch)
                issue = len(program.ops) / program.ksteps / SUB_PARTITIONS
                ceilings = {"tensor": mma.mean, "port": load.mean, "issue": issue}
                found.append((f"micro {variant}:load+mma, {blocks} blocks/SM", both, ceilings))
    for variant in VARIANTS:
        level = evidence.gemm_level(variant)
        if level:
            ceilings = {c.name: c.cycles for c in roofline(Kernel(variant), arch, evidence).ceilings}
            found.append((f"gemm {variant}", level, ceilings))
    return found


def stream_rows(record: Record) -> list[dict[str, Any]]:
    """One row per arm of a stream run."""
    rows = []
    for arm in record.arm_names:
        row: dict[str, Any] = {"arm": arm}
        for key in ("bytes_per_clk_per_sm", "cycles_per_kstep", "cp_async_latency_cycles", "barrier_cycles"):
            level = arm_level(record, arm, lambda cell, key=key: float(cell.values.get(key, math.nan)))  # type: ignore[misc]
            if not math.isnan(level.mean):
                row["cycles" if key.endswith("_cycles") else key] = level.text()
                row[f"{key}_mean"] = level.mean
        rows.append(row)
    return rows
