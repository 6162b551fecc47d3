"""How much of a GEMM difference is the read path, residency, the global-to-shared form, and how much is left?

In SM cycles per warp k-step, for a declared pair a, b: total = G(a) − G(b). Read path = T(a) − T(b) of the micro-
benchmark at the same residency. Form (natural against transposed B): what G(A2L) − G(A3) holds beyond its read path,
since that pair differs in nothing else. Residency: the simulated cost of fewer blocks. What is left is what the GEMM
hides (negative) or adds (positive); the simulated total stands below as a check. The trap: parts of different records
are independent, so their half-widths add in squares; a simulated part has no interval and says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from gemm.explain.evidence import Evidence
from gemm.explain.figures import machine_for
from gemm.explain.predict import predict_gemm, steady_cycles
from gemm.kernel.variants import LADDER_PAIRS, Kernel
from micro.model.arm_names import Work
from micro.model.variants import VARIANTS, BLayout
from stats.analysis.levels import Level
from stats.base.tables import Column
from stats.record.schema import Record

COLUMNS = [
    Column("pair", "a − b", align="left"),
    Column("part", "part", align="left"),
    Column("cycles", "cycles per warp k-step"),
    Column("share_percent", "of total %", ".0f"),
    Column("percent_of_b", "of b's time %", "+.1f"),
    Column("source", "from", align="left"),
]
_FORM_PAIR = ("A2L", "A3")  # transposed, natural: the same instructions on either layout


@dataclass(frozen=True)
class Part:
    """One part of a difference; ``half_width`` nan where it is simulated. ``counts``: it is taken off the total."""

    name: str
    cycles: float
    half_width: float
    source: str
    counts: bool = True

    def text(self) -> str:
        """``+9.41 ±0.02``, or the bare figure of a simulation; what is 0 by construction is ``0``.

        More digits where two would show a figure that is not 0 as if it were.
        """
        figures = [one for one in (self.cycles, self.half_width) if abs(one) > 1e-9]  # nan is not, either
        if not figures:
            return "0"
        digits = next((digits for digits in range(2, 9) if all(float(f"{one:.{digits}f}") for one in figures)), 9)
        bare = f"{self.cycles:+.{digits}f}"
        return bare if math.isnan(self.half_width) else f"{bare} ±{self.half_width:.{digits}f}"


@dataclass(frozen=True)
class _Pair:
    """A pair on one architecture, with the record that holds both arms and the residency they share."""

    a: str
    b: str
    arch: int
    evidence: Evidence
    record: Record
    simulates: bool

    @property
    def blocks(self) -> int:
        return min(self.evidence.resident_blocks(Kernel(name)) for name in (self.a, self.b))

    def simulated(self, variant: str, blocks: int) -> float:
        return steady_cycles(Kernel(variant), machine_for(self.arch, self.evidence, variant=variant), blocks)

    def total(self, a: str, b: str) -> Part | None:
        return _difference(
            "total", self.evidence.gemm_level(a, self.record), self.evidence.gemm_level(b, self.record), "GEMM record"
        )

    def read_path(self, a: str, b: str) -> Part | None:
        level_a, level_b = (self.evidence.micro_level(name, Work.LOAD_MMA, self.blocks) for name in (a, b))
        return _difference("read path", level_a, level_b, "micro load+mma")

    def form(self) -> Part | None:
        sign = int(VARIANTS[self.a].b_layout is BLayout.TRANSPOSED) - int(
            VARIANTS[self.b].b_layout is BLayout.TRANSPOSED
        )
        name = "global→shared form"
        if sign == 0:
            return Part(name, 0.0, 0.0, "the same form")
        whole, read = self.total(*_FORM_PAIR), self.read_path(*_FORM_PAIR)
        if whole and read:
            half = math.hypot(whole.half_width, read.half_width)
            return Part(
                name, sign * (whole.cycles - read.cycles), half, f"{' − '.join(_FORM_PAIR)} beyond its read path"
            )
        if not self.simulates:
            return None
        own = machine_for(self.arch, self.evidence, variant=self.a)
        other = machine_for(self.arch, self.evidence, variant=self.b)
        with_other = steady_cycles(Kernel(self.a), other, self.blocks, self.b)
        return Part(name, steady_cycles(Kernel(self.a), own, self.blocks) - with_other, math.nan, "simulated")

    def residency(self) -> Part | None:
        resident = [self.evidence.resident_blocks(Kernel(name)) for name in (self.a, self.b)]
        if resident[0] == resident[1]:
            return Part("residency", 0.0, 0.0, f"{resident[0]} blocks per SM in both")
        if not self.simulates:
            return None
        cost = [
            self.simulated(v, own) - self.simulated(v, self.blocks)
            for v, own in zip((self.a, self.b), resident, strict=True)
        ]
        return Part(
            "residency", cost[0] - cost[1], math.nan, f"simulated, {resident[0]} and {resident[1]} blocks per SM"
        )


def _difference(name: str, a: Level | None, b: Level | None, source: str) -> Part | None:
    return Part(name, a.mean - b.mean, math.hypot(a.half_width, b.half_width), source) if a and b else None


def attribute(a: str, b: str, arch: int, evidence: Evidence, *, simulates: bool = True) -> list[Part]:
    """Parts of the difference of two variants: total, read path, form, residency, what is left, the simulated total.

    Empty where no record of sm_``arch`` holds both arms of the GEMM. Without micro records the read path is simulated.
    Half-widths are of 95 % intervals; independent ones add in squares. Without ``simulates`` (no machine code) the
    simulated parts are left out, and with one of them what would be left.
    """
    record = evidence.gemm_record(a, b)
    if evidence.arch != arch or record is None:
        return []
    pair = _Pair(a, b, arch, evidence, record, simulates)
    total = pair.total(a, b)
    if total is None:
        return []
    machines = {name: machine_for(arch, evidence, variant=name) for name in (a, b)}
    read = pair.read_path(a, b)
    if read is None and simulates:
        simulated = steady_cycles(Kernel(a), machines[b], pair.blocks, b) - steady_cycles(
            Kernel(b), machines[b], pair.blocks, b
        )
        read = Part("read path", simulated, math.nan, "simulated GEMM with the copies of b")
    found = [read, pair.form(), pair.residency()]
    parts = [part for part in found if part is not None]
    if len(parts) < len(found):
        return [total, *parts]
    halves = [part.half_width for part in (total, *parts) if not math.isnan(part.half_width)]
    left = total.cycles - sum(part.cycles for part in parts)
    explained = [
        total,
        *parts,
        Part("unexplained", left, math.hypot(*halves), "total − parts: hidden (−) or added (+) by the GEMM"),
    ]
    if not simulates:
        return explained
    predicted = [
        predict_gemm(
            Kernel(name), machines[name], blocks_per_sm=evidence.resident_blocks(Kernel(name))
        ).cycles_per_kstep
        for name in (a, b)
    ]
    return [
        *explained,
        Part("simulated total", predicted[0] - predicted[1], math.nan, "prediction of both, as a check", counts=False),
    ]


def attribution_rows(arch: int, evidence: Evidence, *, simulates: bool = True) -> list[dict[str, Any]]:
    """Rows of the ladder's declared pairs that the records hold."""
    rows = []
    for a, b in LADDER_PAIRS:
        parts = attribute(a, b, arch, evidence, simulates=simulates)
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
