"""From a record of the GEMM to its tables: one row per arm, then one row per declared comparison and metric.

Everything is computed from the cells and the header's static facts, so it needs no GPU and no torch. The ratio to
cuBLAS is of times: 100 % is as fast as torch.matmul. The trap: A2 and A2L read a B that was transposed on the host,
outside the timing, and every output says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gemm.kernel.residency import pair_fault, residency_faults
from stats.analysis.levels import ArmLevels, Level
from stats.analysis.prepare import accepted_cells
from stats.base.tables import Column
from stats.record.clock_check import judged_label
from stats.record.schema import Record

ARM_COLUMNS = [
    Column("arm", "kernel", align="left"),
    Column("ms", "ms"),
    Column("tflops", "TFLOPS"),
    Column("sm_cycles", "SM cycles", ",.0f"),
    Column("percent_of_cublas", "% of cuBLAS", ".1f"),
    Column("registers", "regs", "d"),
    Column("spill_bytes", "spills", "d"),
    Column("shared_kib", "smem KiB", ".0f"),
    Column("resident_blocks", "blocks/SM", "d", short="blocks /SM"),
]
COMPARISON_COLUMNS = [
    Column("a", "a", align="left"),
    Column("b", "b", align="left"),
    Column("metric", "in", align="left"),
    Column("effect", "a against b %"),
    Column("simultaneous", "family-wise %"),
    Column("p_holm", "p (Holm)"),
    Column("verdicts", "verdict", align="left"),
    Column("controlled", "controlled", align="left"),
]


def _static(record: Record) -> dict[str, dict[str, Any]]:
    return {arm.name: arm.static for arm in record.header.arms}


def _flop(record: Record) -> float:
    workload = record.header.workload
    return 2.0 * float(workload["m"]) * float(workload["n"]) * float(workload["k"])


def _cublas_of(record: Record, arm: str) -> str | None:
    """The cuBLAS arm of the same element type, if the record holds one."""
    name = "cublas/fp16" if "fp16" in arm.split("/") else "cublas"
    return name if name in record.arm_names and name != arm else None


def _tflops(flop: float, ms: Level) -> str:
    """TFLOPS with the interval that the times imply."""
    value = flop / ms.mean / 1e9
    if math.isnan(ms.half_width):
        return f"{value:.1f}"
    half = (flop / ms.low - flop / ms.high) / 2 / 1e9
    return f"{value:.1f} ±{half:.1f}"


def arm_rows(record: Record) -> list[dict[str, Any]]:
    """One row per arm in the order of the header; a skipped arm has its reason instead of figures."""
    static, flop = _static(record), _flop(record)
    levels = ArmLevels(record)
    ms = {arm: levels.of(arm, lambda cell: cell.time_ns / cell.launches / 1e6) for arm in record.arm_names}
    skipped = {skip.arm: skip.reason for skip in record.skips}
    rows = []
    for arm in record.arm_names:
        level, facts = ms[arm], static.get(arm, {})
        row: dict[str, Any] = {"arm": arm, **{key: facts.get(key) for key in ("registers", "spill_bytes")}}
        row["resident_blocks"] = facts.get("resident_blocks")
        row["shared_kib"] = facts["shared_bytes"] / 1024 if "shared_bytes" in facts else None
        if arm in skipped or math.isnan(level.mean):
            rows.append(row | {"ms": f"skipped: {skipped[arm]}" if arm in skipped else None})
            continue
        cublas = _cublas_of(record, arm)
        row |= {
            "ms": level.text(".4f"),
            "ms_mean": level.mean,
            "ms_low": level.low,
            "ms_high": level.high,
            "tflops": _tflops(flop, level),
            "tflops_mean": flop / level.mean / 1e9,
            "sm_cycles": levels.of(arm, lambda cell: cell.sm_cycles / cell.launches).mean,
            "percent_of_cublas": 100 * ms[cublas].mean / level.mean if cublas else None,
        }
        rows.append(row)
    return rows


def comparison_rows(record: Record, analysis: Any) -> list[dict[str, Any]]:
    """One row per declared comparison and metric of a ``stats.analysis.compare.analyse``.

    Effects are of a against b.
    """
    from stats.analysis.effect import format_p

    static = _static(record)
    rows = []
    for comparison in analysis.comparisons:
        found = comparison.inference
        effect = simultaneous = None
        if found.t:
            low, high = found.t.percent
            effect = f"{found.effect_percent:+.2f} [{low:+.2f}, {high:+.2f}]"
        if found.t_simultaneous:
            low, high = found.t_simultaneous.percent
            simultaneous = f"[{low:+.2f}, {high:+.2f}]"
        fault = pair_fault(static, comparison.a, comparison.b)
        rows.append(
            {
                "a": comparison.a,
                "b": comparison.b,
                "metric": comparison.metric,
                "effect": effect,
                "effect_percent": found.effect_percent,
                "simultaneous": simultaneous,
                "p_holm": None if math.isnan(found.p_holm) else format_p(found.p_holm),
                "verdicts": " ".join(verdict.value for verdict in comparison.verdicts),
                "controlled": f"no: {fault}" if fault else "yes",
            }
        )
    return rows


def heading_lines(record: Record) -> list[str]:
    """Device, problem, clocks, size of the run: what stands above every table."""
    header = record.header
    cells = accepted_cells(record)
    workload: Mapping[str, Any] = header.workload
    device = f"{header.device.name}, {header.device.sm_count} SMs" if header.device else "unknown device"
    clocks = [cell.clock_mhz for cell in cells if math.isfinite(cell.clock_mhz)]
    measured = f"{min(clocks):.0f}–{max(clocks):.0f} MHz measured" if clocks else "clock not measured"
    processes = len({cell.process for cell in cells})
    size = f"{processes} fresh processes" if processes != 1 else "1 process (intervals are conditional on this process)"
    return [
        f"C = A·B, {workload['m']}x{workload['n']}x{workload['k']} {workload['dtype']}, on {device}",
        f"clocks: {judged_label(record)}; {measured}; L2 {header.l2_mode}",
        f"{size}, {header.blocks} blocks of {len(header.arms)} arms, {header.launches} launches a cell; "
        f"kernel sources {header.source_hash}",
    ]


def transposed_lines(static: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The caveat on variants whose arms say ``b_transposed``, by name, in one line; none where no arm says so."""
    names = list(dict.fromkeys(arm.split("/")[0] for arm, facts in static.items() if facts.get("b_transposed")))
    if not names:
        return []
    who = f"{', '.join(names[:-1])} and {names[-1]} read" if names[:-1] else f"{names[0]} reads"
    return [f"{who} a B that was transposed on the host, outside the timing: whoever has no such B pays for that"]


def note_lines(record: Record, analysis: Any | None) -> list[str]:
    """Caveat, residency and what the analysis cautions, one line each."""
    static = _static(record)
    notes = ["ms: 95 % interval, ± rounded up"]
    notes += transposed_lines(static)
    notes += [f"WARNING {fault}" for fault in residency_faults(static)]
    if analysis is not None:
        for aa in analysis.aa:
            if aa.inference.t:
                low, high = aa.inference.t.percent
                notes.append(f"A/A in {aa.metric}: {aa.inference.effect_percent:+.3f} [{low:+.3f}, {high:+.3f}] %")
        notes += [f"note: {caution.message}" for caution in analysis.cautions]
    return notes
