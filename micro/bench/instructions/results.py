"""From a record of ``micro-bench instructions`` to its tables: the reference table, the fitted lines, the grid.

Everything comes from the cells and the header's static facts, so it needs no GPU and no torch. Latency is the one-warp,
one-chain cell; throughput is quoted at the point that the config names. The floor of a throughput is its wavefronts,
one a cycle through the SM's port, and one instruction a cycle. The trap: where lanes share words, more bytes arrive in
registers than the banks deliver, and a rate against the port's limit would mean nothing: such patterns show none.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from micro.bench.instructions.fit import WORST_RESIDUAL_PERCENT, Line, Unseen, errors_on_unseen, fit_line
from micro.gpu.device import SHARED_BYTES_PER_CLK
from micro.model.patterns import INSTRUCTIONS
from stats.analysis.levels import Level, level_of, plus_minus
from stats.base.tables import Column
from stats.record.attempts import final_cells
from stats.record.schema import Record

COLUMNS = [
    Column("instruction", "instruction", align="left"),
    Column("pattern", "pattern", align="left", legend="wayN is an N-way bank conflict"),
    Column("wavefronts", "wavefr.", "d"),
    Column("latency", "latency", legend="one warp, one chain, SM cycles, 95 % interval, ± rounded up"),
    Column("throughput", "cycles/instr.", legend="per warp instruction and SM with many under way, likewise"),
    Column("floor", "floor", ".0f", min_width=100, legend="the predicted wavefronts, one a cycle"),
    Column(
        "error_percent",
        "over %",
        "+.1f",
        legend="cycles/instr. against the predicted wavefronts, one a cycle, negative where "
        "a wide load's groups merge identical words (broadcast), which the model does not know",
    ),
    Column("bytes_per_clk", "B/clk/SM", ".1f", legend="none where lanes share words"),
    Column("percent_of_limit", "% of 128", ".1f", min_width=100, legend="of the port's bytes per clock and SM"),
    Column("fma_per_clk", "FMA/clk/SM", ".0f", min_width=90, legend="multiply-adds of mma"),
]
FIT_COLUMNS = [
    Column("instruction", "instruction", align="left"),
    Column("quantity", "quantity", align="left"),
    Column("base", "conflict-free"),
    Column("slope", "per wavefront"),
    Column("worst_residual", "residual", ".2f"),
    Column("unseen", "unseen", "d"),
    Column("unseen_mean_percent", "mean |err| %", ".2f"),
    Column("unseen_worst_percent", "worst err %", "+.2f"),
    Column("unseen_worst_pattern", "worst on", align="left"),
]
UNITS_LINE = (
    "latency: one warp, one chain, SM cycles; cycles/instr.: per warp instruction and SM with many under way; both "
    "with 95 % interval, ± rounded up; floor: the predicted wavefronts, one a cycle; over %: measured against the "
    "floor, negative where a wide load's groups merge identical words (broadcast), which the model does not know; "
    "B/clk/SM: none where lanes share words"
)
_MERGED = "broadcast (merged words: not in the model)"
PREDICTION_COLUMNS = [
    Column("instruction", "instruction", align="left"),
    Column("pattern", "pattern", align="left", legend="wayN is an N-way bank conflict"),
    Column("wavefronts", "wavefronts", "d", legend="the port serves one a cycle"),
    Column("floor", "floor (cycles)", ".0f"),
    Column("bytes_per_clk", "B/clk/SM", ".1f", legend="none where lanes share words"),
]


@dataclass(frozen=True)
class Point:
    """One arm of the record: what is known of it, and its cycles per instruction and SM."""

    arm: str
    facts: dict[str, Any]
    cycles: Level
    clock_mhz: float

    @property
    def at(self) -> tuple[int, int]:
        """Warps per SM and instructions in flight."""
        return self.facts["warps"], self.facts["in_flight"]

    @property
    def fma_per_clk(self) -> float | None:
        """Multiply-adds per clock and SM of mma.m16n8k16; None for the others."""
        return None if self.facts["wavefronts"] is not None else 16 * 8 * 16 / self.cycles.mean


def points_of(record: Record) -> list[Point]:
    """Every measured arm of the record but the A/A twin, in the order of the header."""
    by_arm: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    clocks: dict[str, list[float]] = defaultdict(list)
    for cell in final_cells(record):
        by_arm[cell.arm][cell.process].append(float(cell.values.get("cycles_per_instruction", math.nan)))
        clocks[cell.arm].append(cell.clock_mhz)
    found = []
    for arm in record.header.arms:
        if arm.name == record.header.twin or arm.name not in by_arm or "instruction" not in arm.static:
            continue
        values = by_arm[arm.name]
        level = level_of([values[process] for process in sorted(values)])
        mhz = sum(clocks[arm.name]) / len(clocks[arm.name])
        found.append(Point(arm.name, dict(arm.static), level, mhz))
    return found


def floor_cycles(wavefronts: int | None) -> float | None:
    """Least cycles of an SM per instruction: its wavefronts, one a cycle; None where shared memory is not touched."""
    return None if wavefronts is None else float(max(1, wavefronts))


def _share_words(facts: dict[str, Any]) -> bool:
    """Whether lanes want the same words: fewer distinct ones than 32 lanes (each at least one word) ask for."""
    return int(facts["port_bytes"]) < max(32 * 4, int(facts["bytes_per_instruction"]))


def _latency(points: list[Point]) -> Point | None:
    return next((point for point in points if point.facts["latency"]), None)


def _throughput(points: list[Point]) -> Point | None:
    return next((point for point in points if point.facts["throughput"]), None)


def _by_pattern(points: list[Point]) -> dict[tuple[str, str], list[Point]]:
    grouped: dict[tuple[str, str], list[Point]] = defaultdict(list)
    for point in points:
        grouped[point.facts["instruction"], point.facts["pattern"]].append(point)
    return grouped


def table_rows(points: list[Point]) -> list[dict[str, Any]]:
    """One row per instruction and pattern; figures that were not measured are None."""
    rows = []
    for (instruction, pattern), group in _by_pattern(points).items():
        facts = group[0].facts
        latency = _latency(group)
        loaded = _throughput(group)
        floor = floor_cycles(facts["wavefronts"])
        row: dict[str, Any] = {
            "instruction": instruction,
            "pattern": pattern,
            "wavefronts": facts["wavefronts"],
            "latency": latency.cycles.text() if latency else None,
            "throughput": loaded.cycles.text() if loaded else None,
            "floor": floor,
        }
        if loaded:
            row["fma_per_clk"] = loaded.fma_per_clk
            if floor is not None:
                row["error_percent"] = 100 * (loaded.cycles.mean / floor - 1)
            if floor is not None and not _share_words(facts):
                rate = facts["bytes_per_instruction"] / loaded.cycles.mean
                row |= {"bytes_per_clk": rate, "percent_of_limit": 100 * rate / SHARED_BYTES_PER_CLK}
        rows.append(row)
    return rows


@dataclass(frozen=True)
class Fit:
    """The line of one instruction for one quantity, and how it did on patterns it had not seen."""

    instruction: str
    quantity: str  # "latency" or "throughput"
    line: Line
    unseen: Unseen


def fits_of(points: list[Point]) -> list[Fit]:
    """Latency and throughput against wavefronts, per instruction that touches shared memory."""
    patterns: dict[tuple[str, str], list[tuple[dict[str, Any], float]]] = defaultdict(list)
    for (instruction, _), group in _by_pattern(points).items():
        latency = _latency(group)
        for quantity, point in (("latency", latency), ("throughput", _throughput(group))):
            if point is not None and point.facts["wavefronts"] is not None:
                patterns[instruction, quantity].append((point.facts, point.cycles.mean))
    found = []
    for (instruction, quantity), measured in patterns.items():
        seen = [(facts["wavefronts"], cycles) for facts, cycles in measured if facts["for_fit"]]
        least = measured[0][0]["least_wavefronts"]
        line = fit_line([w for w, _ in seen], [cycles for _, cycles in seen], least)
        unseen = [(f["pattern"], f["wavefronts"], cycles) for f, cycles in measured if not f["for_fit"]]
        found.append(Fit(instruction, quantity, line, errors_on_unseen(line, unseen)))
    return found


def _plus_minus(value: float, interval: tuple[float, float]) -> str | None:
    return None if math.isnan(value) else plus_minus(value, (interval[1] - interval[0]) / 2)


def _worst_pattern(fit: Fit) -> str | None:
    """The pattern of the worst error, with its reason where wide loads of identical words were served at once."""
    from micro.model.banks import Kind  # the address formulas come compiled: reading other records needs no compiler

    merged = fit.unseen.worst_pattern == "broadcast" and fit.unseen.worst_error_percent > WORST_RESIDUAL_PERCENT
    wide = INSTRUCTIONS[fit.instruction].kind is Kind.PER_LANE and INSTRUCTIONS[fit.instruction].bytes_per_lane > 4
    return _MERGED if merged and wide else fit.unseen.worst_pattern or None


def fit_rows(fits: list[Fit]) -> list[dict[str, Any]]:
    """One row per line, with the numbers beside their text for JSON."""
    return [
        {
            "instruction": fit.instruction,
            "quantity": fit.quantity,
            "base": _plus_minus(fit.line.base_cycles, fit.line.base_interval),
            "slope": _plus_minus(fit.line.cycles_per_wavefront, fit.line.slope_interval),
            "worst_residual": fit.line.worst_residual_cycles,
            "unseen": fit.unseen.patterns,
            "unseen_mean_percent": fit.unseen.mean_absolute_error_percent,
            "unseen_worst_percent": fit.unseen.worst_error_percent,
            "unseen_worst_pattern": _worst_pattern(fit),
            "least_wavefronts": fit.line.least_wavefronts,
            "base_cycles": fit.line.base_cycles,
            "base_interval": list(fit.line.base_interval),
            "cycles_per_wavefront": fit.line.cycles_per_wavefront,
            "slope_interval": list(fit.line.slope_interval),
            "warnings": list(fit.line.warnings),
        }
        for fit in fits
    ]


def prediction_rows(statics: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the bank model alone says of each instruction and pattern, from the static facts of the arms."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for facts in statics:
        floor = floor_cycles(facts["wavefronts"])
        rows[facts["instruction"], facts["pattern"]] = {
            "instruction": facts["instruction"],
            "pattern": facts["pattern"],
            "wavefronts": facts["wavefronts"],
            "floor": floor,
            "bytes_per_clk": None if floor is None or _share_words(facts) else facts["bytes_per_instruction"] / floor,
        }
    return list(rows.values())
