"""What the records of the GEMM show: TFLOPS of each variant against cuBLAS and the tensor peak at the measured clock.

Found by ``stats.report.tools`` by its name; computed from records, without a GPU or torch. The trap: the peak is that
of the clock the cells measured, not of the data sheet, and at the published rate of dense tensor arithmetic, which
``mma.sync`` need not reach on every architecture.
"""

from __future__ import annotations

import math
from typing import Any

from micro.device import mma_floor_cycles_per_kstep
from stats.levels import Level, arm_level
from stats.records import Record
from stats.report.model import Bar, Ladder, Mark, NotInRecord, Table, ToolReport
from stats.report.text import level_text
from stats.tables import Column

__all__ = ["REPORT"]

_FLOP_PER_MMA = 2 * 16 * 8 * 16


def _flop(record: Record) -> float:
    workload = record.header.workload
    try:
        return 2.0 * float(workload["m"]) * float(workload["n"]) * float(workload["k"])
    except (KeyError, TypeError, ValueError):
        raise NotInRecord(f"{record.name}: its workload names no m, n, k, so there are no TFLOPS") from None


def _arms(record: Record) -> list[str]:
    return [name for name in record.arm_names if name != record.header.twin]


def _is_cublas(arm: str) -> bool:
    return arm.split("/")[0] == "cublas"


def _tflops(record: Record, arm: str) -> Level:
    flop = _flop(record)
    time = arm_level(record, arm, lambda cell: cell.time_ns / cell.launches)
    scale = flop * 1e-3  # flop a nanosecond is GFLOPS
    return Level(scale / time.mean, scale / time.high, scale / time.low, time.confidence, time.n, time.unit)


def _peak_tflops(record: Record) -> float:
    device = record.header.device
    clocks = [cell.clock_mhz for cell in record.cells if math.isfinite(cell.clock_mhz)]
    cycles = mma_floor_cycles_per_kstep(device.compute_capability, 1) if device else None
    if device is None or cycles is None or not clocks:
        return math.nan
    return _FLOP_PER_MMA / cycles * device.sm_count * (sum(clocks) / len(clocks)) * 1e-6


def ladder(record: Record) -> Ladder:
    """TFLOPS of each variant, cuBLAS and the peak beside them."""
    bars = [Bar(arm, _tflops(record, arm)) for arm in _arms(record) if not _is_cublas(arm)]
    marks = []
    for arm in _arms(record):
        if _is_cublas(arm):
            level = _tflops(record, arm)
            if math.isfinite(level.mean):
                marks.append(Mark(f"cuBLAS {level_text(level)}", level.mean, level.low, level.high))
    peak = _peak_tflops(record)
    if math.isfinite(peak):
        marks.append(Mark(f"tensor peak {peak:.0f}", peak))
    workload = record.header.workload
    shape = f"{workload['m']}×{workload['n']}×{workload['k']}, {workload.get('dtype', '')}".rstrip(", ")
    return Ladder(f"GEMM {shape}", "TFLOPS", bars, marks, "higher is better; B pre-transposed outside the timing")


def gemm_table(record: Record) -> Table:
    """Time, TFLOPS, cycles and ratio to cuBLAS of each arm, with what the compiler made of it."""
    static: dict[str, dict[str, Any]] = {arm.name: arm.static for arm in record.header.arms}
    times = {arm: arm_level(record, arm, lambda cell: 1e-6 * cell.time_ns / cell.launches) for arm in _arms(record)}
    cublas = next((times[arm].mean for arm in times if _is_cublas(arm)), math.nan)
    rows = []
    for arm, time in times.items():
        tflops = _tflops(record, arm)
        cycles = arm_level(record, arm, lambda cell: cell.sm_cycles / cell.launches)
        row: dict[str, Any] = {
            "arm": arm,
            "time_ms": level_text(time),
            "tflops": level_text(tflops),
            "cycles": level_text(cycles),
        }
        row |= {"of_cublas_percent": 100 * cublas / time.mean, **static.get(arm, {})}
        for key, level in (("time_ms", time), ("tflops", tflops), ("cycles", cycles)):
            row |= {f"{key}_mean": level.mean, f"{key}_low": level.low, f"{key}_high": level.high}
        rows.append(row)
    columns = [
        Column("arm", "arm", align="left"),
        Column("time_ms", "time (ms)"),
        Column("tflops", "TFLOPS"),
        Column("cycles", "SM cycles"),
        Column("of_cublas_percent", "% of cuBLAS", ".1f"),
    ]
    for key, heading in (("registers", "registers"), ("local_bytes", "spilled (B)"), ("resident_blocks", "blocks/SM")):
        if any(key in row for row in rows):
            columns.append(Column(key, heading, "d"))
    note = "per launch, mean with 95 % t interval over fresh processes; B is transposed once, outside the timing"
    return Table("GEMM", columns, rows, note)


REPORT = ToolReport(main="gemm", tables={"gemm": gemm_table}, figures={"ladder": ladder})
