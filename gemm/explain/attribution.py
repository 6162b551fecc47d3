"""How much of a GEMM difference is the read path, residency, the global-to-shared form, and how much is left?

In SM cycles per warp k-step, for a declared pair a, b: total = G(a) − G(b), measured. Read path = T(a) − T(b) of the
micro-benchmark at the same residency, measured. Beyond it the simulator says what the read path costs more under
barriers and copies. Form: the simulated cost of the slower copies. Residency: the simulated cost of fewer blocks. The
trap: parts from different records are independent, so their half-widths add in squares; a simulated part has no
interval and says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from gemm.explain.evidence import Evidence
from gemm.explain.figures import machine_for
from gemm.explain.predict import simulate_gemm
from gemm.variants import LADDER_PAIRS, Kernel
from micro.arm_names import Work
from stats.levels import Level
from stats.tables import Column

__all__ = ["COLUMNS", "Part", "attribute", "attribution_rows"]

COLUMNS = [
    Column("pair", "a − b", align="left"),
    Column("part", "part", align="left"),
    Column("cycles", "cycles per warp k-step"),
    Column("share_percent", "of total %", ".0f"),
    Column("percent_of_b", "of b's time %", "+.1f"),
    Column("source", "from", align="left"),
]


@dataclass(frozen=True)
class Part:
    """One part of a difference; ``half_width`` nan where it is simulated."""

    name: str
    cycles: float
    half_width: float
    source: str

    def text(self) -> str:
        """``+9.41 ±0.02``, or the bare figure of a simulation."""
        bare = f"{self.cycles:+.2f}"
        return bare if math.isnan(self.half_width) else f"{bare} ±{self.half_width:.2f}"


def _difference(a: Level, b: Level) -> tuple[float, float]:
    return a.mean - b.mean, math.hypot(a.half_width, b.half_width)


def attribute(a: str, b: str, arch: int, evidence: Evidence) -> list[Part]:
    """Parts of the difference of two variants, the total first and what is unexplained last.

    Empty where no record holds both arms of the GEMM. The read path is measured where the micro records hold T of both
    at this residency, else simulated. Intervals are 95 %, the larger of independent half-widths added in squares.
    """
    record = evidence.gemm_record(a, b)
    if evidence.arch != arch or record is None:
        return []
    level_a, level_b = evidence.gemm_level(a, record), evidence.gemm_level(b, record)
    if level_a is None or level_b is None:
        return []
    kernel_a, kernel_b = Kernel(a), Kernel(b)
    blocks_a, blocks_b = evidence.resident_blocks(kernel_a), evidence.resident_blocks(kernel_b)
    common = min(blocks_a, blocks_b)
    machine_a = machine_for(arch, evidence, variant=a, blocks=common)
    machine_b = machine_for(arch, evidence, variant=b, blocks=common)

    total, total_half = _difference(level_a, level_b)
    parts = [Part("total", total, total_half, "GEMM record")]

    micro_a = evidence.micro_level(a, Work.LOAD_MMA, common)
    micro_b = evidence.micro_level(b, Work.LOAD_MMA, common)
    # Same copies for both, so that only the read path differs.
    same_copies = (
        simulate_gemm(kernel_a, machine_b, common).cycles_per_kstep
        - simulate_gemm(kernel_b, machine_b, common).cycles_per_kstep
    )
    if micro_a and micro_b:
        read, half = _difference(micro_a, micro_b)
        parts.append(Part("read path", read, half, "micro load+mma"))
        parts.append(
            Part("read path under copies and barriers", same_copies - read, math.nan, "simulated GEMM − micro load+mma")
        )
    else:
        parts.append(Part("read path", same_copies, math.nan, "simulated GEMM"))
    form = (
        simulate_gemm(kernel_a, machine_a, common).cycles_per_kstep
        - simulate_gemm(kernel_a, machine_b, common).cycles_per_kstep
    )
    parts.append(Part("global→shared form", form, math.nan, "simulated, copy rates of the stream run"))
    residency = 0.0
    for sign, kernel, machine, blocks in ((1, kernel_a, machine_a, blocks_a), (-1, kernel_b, machine_b, blocks_b)):
        if blocks != common:
            residency += sign * (
                simulate_gemm(kernel, machine, blocks).cycles_per_kstep
                - simulate_gemm(kernel, machine, common).cycles_per_kstep
            )
    source = "equal residency" if blocks_a == blocks_b else "simulated"
    parts.append(Part("residency", residency, 0.0 if blocks_a == blocks_b else math.nan, source))
    left = total - sum(part.cycles for part in parts[1:])
    halves = [part.half_width for part in parts if not math.isnan(part.half_width)]
    parts.append(Part("unexplained", left, math.hypot(*halves), "total − parts"))
    return parts


def attribution_rows(arch: int, evidence: Evidence) -> list[dict[str, Any]]:
    """Rows of the ladder's declared pairs that the records hold."""
    rows = []
    for a, b in LADDER_PAIRS:
        parts = attribute(a, b, arch, evidence)
        if not parts:
            continue
        reference = evidence.gemm_level(b, evidence.gemm_record(a, b))
        assert reference is not None
        for part in parts:
            rows.append(
                {
                    "pair": f"{a} − {b}",
                    "part": part.name,
                    "cycles": part.text(),
                    "cycles_mean": part.cycles,
                    "cycles_half_width": part.half_width,
                    "share_percent": 100 * part.cycles / parts[0].cycles if parts[0].cycles else None,
                    "percent_of_b": 100 * part.cycles / reference.mean,
                    "source": part.source,
                }
            )
    return rows
