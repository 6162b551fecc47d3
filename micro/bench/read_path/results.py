"""From a record of the micro-benchmark to its table: L, M, T per variant, the rate, the overlap, the prediction.

Everything is computed from the cells and the header's static facts, so it needs no GPU and no torch.
hidden = (L + M − T) / min(L, M): 100 % when the shorter of load and mma vanishes behind the other, negative when the
two together cost more than one after the other.
"""

from __future__ import annotations

import math
from typing import Any

from micro.gpu.device import SHARED_BYTES_PER_CLK
from micro.model.arm_names import MMA_ARM, Work, arm_name, parse_arm
from stats.analysis.levels import ArmLevels, Level
from stats.analysis.prepare import accepted_cells, prepare
from stats.base.tables import Column
from stats.record.clock_check import judged_label
from stats.record.schema import Record

COLUMNS = [
    Column("name", "variant", align="left", legend="noswz is without the swizzle"),
    Column("load", "L", legend="load only, SM cycles per warp k-step (16 mma), 95 % interval, ± rounded up"),
    Column("mma", "M", min_width=100, legend="mma only, likewise"),
    Column("load_mma", "T", legend="load and mma, likewise"),
    Column("hidden_percent", "hidden %", ".0f", legend="(L+M-T)/min(L,M)"),
    Column("bytes_per_clk", "B/clk/SM", ".1f"),
    Column("percent_of_limit", "% of 128", ".1f", legend="of the port's bytes per clock and SM"),
    Column("predicted", "pred. L", ".0f", min_width=100, legend="from the addresses alone"),
    Column("error_percent", "error %", "+.2f", legend="measured L against the prediction from the addresses alone"),
    Column("wavefronts", "wave-fronts", "d", legend="per warp k-step, of which the port serves one a cycle"),
    Column("instructions", "loads", "d", legend="instructions per warp k-step"),
]
# The same for programs: every figure unrounded, with the ends of its interval.
DATA_COLUMNS = [
    Column(key, key)
    for key in (
        "variant",
        "swizzle",
        *(f"{level}_{end}" for level in ("load", "mma", "load_mma") for end in ("mean", "low", "high")),
        "hidden_percent",
        "bytes_per_clk",
        "percent_of_limit",
        "predicted",
        "error_percent",
        "wavefronts",
        "instructions",
    )
]
UNITS_LINES = [
    "L load only, M mma only, T load+mma: SM cycles per warp k-step (16 mma), 95 % interval, ± rounded up.",
    "noswz: tiles without the swizzle. pred. L: from the addresses alone; error: measured L against it.",
    "hidden: (L+M-T)/min(L,M).",
]
PREDICTION_COLUMNS = [
    Column("variant", "variant", align="left"),
    Column("swizzle", "swz", align="left", legend="whether the tiles in shared memory are swizzled"),
    Column("predicted", "predicted L (cycles per warp k-step)", ".0f"),
    Column("bytes_per_clk", "predicted B/clk/SM", ".1f"),
    Column("percent_of_limit", "% of 128", ".1f", legend="of the port's bytes per clock and SM"),
    Column("wavefronts", "wavefronts", "d", legend="per warp k-step, of which the port serves one a cycle"),
    Column("instructions", "load instructions", "d"),
]


def _per_kstep(cell: Any) -> float:
    return float(cell.values.get("cycles_per_kstep", math.nan))


def _level(levels: ArmLevels, arm: str) -> Level | None:
    return levels.of(arm, _per_kstep) if arm in levels.record.arm_names else None


def measured_rows(record: Record) -> list[dict[str, Any]]:
    """One row per variant and swizzle that the record holds; absent figures are None."""
    keys: list[tuple[str, bool]] = []
    static = {arm.name: arm.static for arm in record.header.arms}
    for name in record.arm_names:
        parsed = parse_arm(name)
        if parsed and parsed[:2] not in keys:
            keys.append(parsed[:2])
    levels = ArmLevels(record)
    mma = _level(levels, MMA_ARM)
    return [_row(levels, static, variant, swizzle, mma) for variant, swizzle in keys]


def _row(
    levels: ArmLevels, static: dict[str, dict[str, Any]], variant: str, swizzle: bool, mma: Level | None
) -> dict[str, Any]:
    load_arm, both_arm = arm_name(variant, swizzle, Work.LOAD), arm_name(variant, swizzle, Work.LOAD_MMA)
    load, both = _level(levels, load_arm), _level(levels, both_arm)
    facts = static.get(load_arm) or static.get(both_arm) or {}
    row: dict[str, Any] = {
        "name": variant if swizzle else f"{variant} noswz",
        "variant": variant,
        "swizzle": "on" if swizzle else "off",
        "load": load.text(".3f") if load else None,
        "mma": mma.text(".3f") if mma else None,
        "load_mma": both.text(".3f") if both else None,
        "wavefronts": facts.get("wavefronts"),
        "instructions": facts.get("load_instructions"),
    }
    for key, level in (("load", load), ("mma", mma), ("load_mma", both)):
        if level:
            row |= {f"{key}_mean": level.mean, f"{key}_low": level.low, f"{key}_high": level.high}
    if load:
        rate = facts["bytes"] / load.mean
        predicted = static[load_arm]["predicted_cycles"]
        row |= {
            "bytes_per_clk": rate,
            "percent_of_limit": 100 * rate / SHARED_BYTES_PER_CLK,
            "predicted": predicted,
            "error_percent": 100 * (load.mean / predicted - 1),
        }
    if load and mma and both:
        row["hidden_percent"] = 100 * (load.mean + mma.mean - both.mean) / min(load.mean, mma.mean)
    return row


def heading_lines(record: Record) -> list[str]:
    """Device, clocks, measured clock, sources and the size of the run: what stands above every table."""
    header = record.header
    cells = accepted_cells(record)
    lines = []
    if header.device:
        resident = header.workload.get("blocks_per_sm")
        lines.append(
            f"measured on {header.device.name} (sm_{header.device.compute_capability.replace('.', '')}, "
            f"{header.device.sm_count} SMs), {resident} block{'' if resident == 1 else 's'} per SM"
        )
    clocks = [cell.clock_mhz for cell in cells if math.isfinite(cell.clock_mhz)]
    measured = f"{min(clocks):.0f}–{max(clocks):.0f} MHz measured" if clocks else "clock not measured"
    lines.append(f"clocks: {judged_label(record)}; {measured}")
    processes = len({cell.process for cell in cells})
    blocks = len({(cell.process, cell.block) for cell in cells})
    size = f"{processes} fresh processes" if processes != 1 else "1 process (intervals are conditional on this process)"
    excluded = prepare(record).exclusion
    of = "" if excluded.accepted == excluded.blocks else f" accepted of {excluded.blocks}"
    lines.append(f"{size}, {blocks} blocks{of} of {len(header.arms)} arms; kernel sources {header.source_hash}")
    mma = _level(ArmLevels(record), MMA_ARM)
    if mma and not math.isnan(mma.mean):
        lines.append(f"M (mma only): {mma.text('.3f')} cycles per warp k-step")
    return lines


def prediction_rows(variants: list[str], swizzles: list[bool]) -> list[dict[str, Any]]:
    """The load-only prediction of each variant, from the addresses alone."""
    from micro.model.predict import predict_load_only

    rows = []
    for swizzle in swizzles:
        for variant in variants:
            found = predict_load_only(variant, swizzle)
            rows.append(
                {
                    "variant": variant,
                    "swizzle": "on" if swizzle else "off",
                    "predicted": found.cycles,
                    "bytes_per_clk": found.bytes_per_clk_per_sm,
                    "percent_of_limit": found.percent_of_limit,
                    "wavefronts": found.wavefronts,
                    "instructions": found.instructions,
                }
            )
    return rows
