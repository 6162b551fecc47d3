"""What the records of the micro-benchmark show: the ladder, the prediction beside it, and what hides behind the mma.

Found by ``stats.report.tools`` by its name; computed from records, without a GPU or torch. The trap: rates are bytes
over cycles, so the ends of an interval change places.
"""

from __future__ import annotations

import math
from dataclasses import replace

from micro.bench.read_path.results import COLUMNS, UNITS_LINES, measured_rows
from micro.gpu.device import SHARED_BYTES_PER_CLK
from micro.model.arm_names import MMA_ARM, Work, arm_name, parse_arm
from stats.analysis.levels import ArmLevels, Level
from stats.record.schema import CellRow, Record
from stats.report.model import (
    Bar,
    Ladder,
    Mark,
    NotInRecord,
    Overlap,
    OverlapRow,
    Predicted,
    PredictedRow,
    Table,
    ToolReport,
)

UNIT = "SM cycles per warp k-step"


def _per_kstep(cell: CellRow) -> float:
    return float(cell.values.get("cycles_per_kstep", math.nan))


def _keys(record: Record, work: Work) -> list[tuple[str, bool]]:
    parsed = [parse_arm(name) for name in record.arm_names]
    return [(key[0], key[1]) for key in parsed if key and key[2] is work]


def _label(variant: str, swizzle: bool) -> str:
    return variant if swizzle else f"{variant}, no swizzle"


def _group(swizzle: bool) -> str:
    return "swizzle on" if swizzle else "swizzle off"


def _loads(record: Record) -> list[tuple[str, bool, Level]]:
    levels = ArmLevels(record)
    found = [
        (variant, swizzle, levels.of(arm_name(variant, swizzle, Work.LOAD), _per_kstep))
        for variant, swizzle in _keys(record, Work.LOAD)
    ]
    if not any(math.isfinite(level.mean) for _, _, level in found):
        raise NotInRecord(f"{record.name}: holds no load-only figure; run micro-bench with --do-mma 0 or both")
    return found


def micro_table(record: Record) -> Table:
    """L, M, T, rate, overlap and prediction of each variant."""
    # The terminal's headings may break at a hyphen; a page has room for them whole.
    columns = [replace(column, heading=column.heading.replace("-", ""), short=column.heading) for column in COLUMNS]
    return Table("Shared-memory read path", columns, measured_rows(record), " ".join(UNITS_LINES), own_legends=True)


def ladder(record: Record) -> Ladder:
    """Bytes per clock and SM of each variant, load only, against the port's limit."""
    static = {arm.name: arm.static for arm in record.header.arms}
    bars = []
    for variant, swizzle, level in _loads(record):
        size = float(static[arm_name(variant, swizzle, Work.LOAD)]["bytes"])
        rate = Level(
            size / level.mean, size / level.high, size / level.low, level.confidence, level.n, level.unit
        )  # less time is more rate
        bars.append(Bar(_label(variant, swizzle), rate, _group(swizzle)))
    limit = Mark(f"limit {SHARED_BYTES_PER_CLK} B/clk/SM", SHARED_BYTES_PER_CLK)
    return Ladder("Shared-memory reads, load only", "B/clk/SM", bars, [limit], "higher is better")


def predicted(record: Record) -> Predicted:
    """Load-only cycles against the prediction from the addresses."""
    static = {arm.name: arm.static for arm in record.header.arms}
    rows = [
        PredictedRow(
            _label(variant, swizzle),
            float(static[arm_name(variant, swizzle, Work.LOAD)]["predicted_cycles"]),
            level,
            _group(swizzle),
        )
        for variant, swizzle, level in _loads(record)
    ]
    return Predicted("Load only: measured against predicted from the addresses", UNIT, rows)


def overlap(record: Record) -> Overlap:
    """L, M and T of each variant."""
    if MMA_ARM not in record.arm_names or not _keys(record, Work.LOAD_MMA):
        raise NotInRecord(f"{record.name}: holds no load+mma beside mma alone; run micro-bench with --do-mma both")
    levels = ArmLevels(record)
    mma = levels.of(MMA_ARM, _per_kstep)
    rows = []
    for variant, swizzle, load in _loads(record):
        both = arm_name(variant, swizzle, Work.LOAD_MMA)
        if both in record.arm_names:
            rows.append(OverlapRow(_label(variant, swizzle), load, mma, levels.of(both, _per_kstep)))
    return Overlap("What hides behind the mma", UNIT, rows, "hidden = (L + M − T) / min(L, M)")


REPORT = ToolReport(
    main="micro",
    tables={"micro": micro_table},
    figures={"ladder": ladder, "overlap": overlap, "predicted": predicted},
)


def instructions_table(record: Record) -> Table:
    """Latency and throughput of every instruction and access pattern."""
    from micro.bench.instructions import (
        results as instruction_results,  # its wavefronts come compiled: other records need no compiler
    )

    rows = instruction_results.table_rows(instruction_results.points_of(record))
    note = instruction_results.UNITS_LINE
    return Table("Shared-memory instructions", instruction_results.COLUMNS, rows, note, own_legends=True)


def published_table(record: Record) -> Table:
    """Figures published by others beside those of the record."""
    from micro.bench.instructions import published
    from micro.bench.instructions import results as instruction_results

    rows = published.published_rows(instruction_results.points_of(record), record.header.device)
    return Table("Published by others, beside ours", published.COLUMNS, rows)


def fits_table(record: Record) -> Table:
    """The fitted line of each instruction: conflict-free cost, cost a wavefront, error on patterns it has not seen."""
    from micro.bench.instructions import (
        results as instruction_results,  # its wavefronts come compiled: other records need no compiler
    )

    fits = instruction_results.fits_of(instruction_results.points_of(record))
    rows = instruction_results.fit_rows(fits)
    return Table("Cycles against wavefronts", instruction_results.FIT_COLUMNS, rows, "95 % t intervals of the fit")


INSTRUCTIONS = ToolReport(
    main="instructions",
    tables={"instructions": instructions_table, "fits": fits_table, "published": published_table},
    figures={},
)


def contention_table(record: Record) -> Table:
    """Cycles of a pass by what is in it, and what each instruction costs."""
    from micro.bench.contention import results as contention_results

    rows = contention_results.contention_rows(record)
    units = " ".join(contention_results.UNITS_LINES)
    return Table("Contention in the load path", contention_results.COLUMNS, rows, units)


CONTENTION = ToolReport(main="contention", tables={"contention": contention_table}, figures={})
