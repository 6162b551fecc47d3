"""Which arms and pairs of the records can be read, and against which ceilings each?

Micro load+mma: tensor (M), port (L), issue. GEMM: tensor, port with the copies, L2, issue. Pairs: those of the
ladder. The stream run has its own table. The trap: a ceiling and the time that it explains must come from the same
residency.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from gemm.explain.effects import effect
from gemm.explain.evidence import Evidence
from gemm.explain.figures import machine_for
from gemm.explain.guide import Reading, read_pair, read_time
from gemm.explain.predict import simulate_micro
from gemm.explain.relief import relief
from gemm.explain.roofline import issue_ceiling, roofline, units_ceilings
from gemm.kernel.variants import LADDER_PAIRS, Kernel
from gemm.simulator.kernels import micro_program
from gemm.simulator.machine import Machine
from micro.model.arm_names import Work
from micro.model.variants import VARIANTS
from stats.analysis.levels import ArmLevels, Level
from stats.base.tables import Column
from stats.record.schema import Record

STREAM_COLUMNS = [
    Column("arm", "arm", align="left"),
    Column("bytes_per_clk_per_sm", "B/clk/SM"),
    Column("cycles_per_kstep", "cycles per warp k-step"),
    Column("cycles", "cycles each"),
]


def _micro_cycles(variant: str, blocks: int, machine: Machine) -> float:
    return simulate_micro(variant, "load+mma", machine, blocks).cycles_per_kstep


def _no_issue(reading: Reading) -> Reading:
    return Reading(reading.situation, f"{reading.rule}; issue is not counted, it needs machine code")


def readings(arch: int, evidence: Evidence, *, machine_code: bool = True) -> list[tuple[str, Level | None, Reading]]:
    """(name, measured level, reading) for load+mma arms, GEMM arms and the ladder's pairs in records of sm_``arch``.

    Without ``machine_code`` neither the issue ceiling nor what a faster resource would save is known; the rules say so.
    """
    if evidence.arch != arch:
        return []
    found: list[tuple[str, Level | None, Reading]] = []
    for blocks in sorted(evidence.micro, reverse=True):
        for variant in VARIANTS:
            both = evidence.micro_level(variant, Work.LOAD_MMA, blocks)
            load = evidence.micro_level(variant, Work.LOAD, blocks)
            mma = evidence.micro_level(variant, Work.MMA, blocks)
            if both and load and mma:
                name, ceilings = (
                    f"micro {variant}:load+mma, {blocks} {'block' if blocks == 1 else 'blocks'}/SM",
                    {"tensor": mma.mean, "port": load.mean},
                )
                if not machine_code:
                    found.append((name, both, _no_issue(read_time(both, ceilings))))
                    continue
                machine = machine_for(arch, evidence, variant=variant, blocks=blocks)
                issue = issue_ceiling(micro_program(variant, "load+mma", arch), machine).cycles
                reading = read_time(
                    both,
                    ceilings | {"issue": issue},
                    relief(machine, functools.partial(_micro_cycles, variant, blocks)),
                )
                found.append((name, both, reading))
    read: dict[str, Reading] = {}
    for variant in VARIANTS:
        level = evidence.gemm_level(variant)
        if level and not machine_code:
            read[variant] = _no_issue(read_time(level, units_ceilings(Kernel(variant), arch, evidence)))
        elif level:
            roof = roofline(Kernel(variant), arch, evidence)
            read[variant] = read_time(level, {c.name: c.cycles for c in roof.ceilings}, roof.relief)
        if level:
            found.append((f"gemm {variant}", level, read[variant]))
    for a, b in LADDER_PAIRS:
        record = evidence.gemm_record(a, b)
        if record and {a, b} <= set(read):
            reading = read_pair(effect(record, a, b), read[a], read[b], record.header.margin_percent)
            found.append((f"gemm {a} against {b}", None, reading))
    return found


def stream_rows(record: Record) -> list[dict[str, Any]]:
    """One row per arm of a stream run."""
    rows, levels = [], ArmLevels(record)
    for arm in record.arm_names:
        row: dict[str, Any] = {"arm": arm}
        for key in ("bytes_per_clk_per_sm", "cycles_per_kstep", "cp_async_latency_cycles", "barrier_cycles"):
            level = levels.of(arm, lambda cell, key=key: float(cell.values.get(key, math.nan)))  # type: ignore[misc]
            if not math.isnan(level.mean):
                row["cycles" if key.endswith("_cycles") else key] = level.text()
                row[f"{key}_mean"] = level.mean
        rows.append(row)
    return rows
