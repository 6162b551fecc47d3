"""What the records of the GEMM show: TFLOPS of each variant against cuBLAS and the tensor peak at the measured clock.

Found by ``stats.report.tools`` by its name; computed from records, without a GPU or torch. The trap: the peak is that
of the clock the cells measured, not of the data sheet, and at the published rate of dense tensor arithmetic, which
``mma.sync`` need not reach on every architecture.
"""

from __future__ import annotations

import math

from gemm.kernel.residency import residency_faults
from gemm.ladder.results import ARM_COLUMNS, arm_rows, transposed_lines
from micro.gpu.device import mma_floor_cycles_per_kstep
from stats.analysis.levels import Level, arm_level
from stats.record.schema import Record
from stats.report.model import Bar, Ladder, Mark, NotInRecord, Table, ToolReport
from stats.report.text import level_text

_FLOP_PER_MMA = 2 * 16 * 8 * 16


def _require_shape(record: Record) -> None:
    if not all(isinstance(record.header.workload.get(name), int) for name in "mnk"):
        raise NotInRecord(f"{record.name}: its workload names no m, n, k, so there are no TFLOPS")


def _is_cublas(arm: str) -> bool:
    return arm.split("/")[0] == "cublas"


def _tflops(record: Record, arm: str) -> Level:
    workload = record.header.workload
    time = arm_level(record, arm, lambda cell: cell.time_ns / cell.launches)
    scale = 2e-3 * workload["m"] * workload["n"] * workload["k"]  # flop a nanosecond is GFLOPS
    return Level(scale / time.mean, scale / time.high, scale / time.low, time.confidence, time.n, time.unit)


def _peak_tflops(record: Record) -> float:
    device = record.header.device
    clocks = [cell.clock_mhz for cell in record.cells if math.isfinite(cell.clock_mhz)]
    cycles = mma_floor_cycles_per_kstep(device.compute_capability, 1) if device else None
    if device is None or cycles is None or not clocks:
        return math.nan
    return _FLOP_PER_MMA / cycles * device.sm_count * (sum(clocks) / len(clocks)) * 1e-6


def _notes(record: Record) -> list[str]:
    static = {arm.name: arm.static for arm in record.header.arms}
    return [*transposed_lines(static), *residency_faults(static)]


def ladder(record: Record) -> Ladder:
    """TFLOPS of each variant, cuBLAS and the peak beside them."""
    _require_shape(record)
    arms = [name for name in record.arm_names if name != record.header.twin]
    bars = [Bar(arm, _tflops(record, arm)) for arm in arms if not _is_cublas(arm)]
    marks = []
    for arm in filter(_is_cublas, arms):
        level = _tflops(record, arm)
        if math.isfinite(level.mean):
            marks.append(
                Mark(f"{arm.replace('cublas', 'cuBLAS')} {level_text(level)}", level.mean, level.low, level.high)
            )
    peak = _peak_tflops(record)
    if math.isfinite(peak):
        marks.append(Mark(f"tensor peak {peak:.0f}", peak))
    workload = record.header.workload
    title = f"GEMM {workload['m']}×{workload['n']}×{workload['k']}, {workload.get('dtype', '')}".rstrip(", ")
    return Ladder(title, "TFLOPS", bars, marks, "; ".join(["higher is better", *_notes(record)]))


def gemm_table(record: Record) -> Table:
    """Time, TFLOPS, cycles and ratio to cuBLAS of each arm, with what the compiler made of it."""
    _require_shape(record)
    note = "per launch; ± and brackets: 95 % t interval over fresh processes"
    rows = [row for row in arm_rows(record) if row["arm"] != record.header.twin]
    return Table("GEMM", ARM_COLUMNS, rows, "; ".join([note, *_notes(record)]))


REPORT = ToolReport(main="gemm", tables={"gemm": gemm_table}, figures={"ladder": ladder})
