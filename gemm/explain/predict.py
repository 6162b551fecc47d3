"""What should each kernel take, from micro figures and ceilings alone, and how far is the measurement from it?

Micro kernels: the simulated loop. GEMM: the simulated steady pass, times the tiles of a block, times the waves of
blocks that the SMs run, plus the start (first tile from L2) and the end (C to memory) of each wave. The trap: a grid
that does not fill the last wave costs a whole one, which no per-SM figure shows.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

from gemm.explain.evidence import Evidence, warp_ksteps_per_sm
from gemm.explain.figures import machine_for
from gemm.explain.kernels import WORKS, gemm_program, micro_program
from gemm.explain.machine import Machine
from gemm.explain.simulate import Simulation, simulate
from gemm.variants import Kernel
from micro.arm_names import Work
from micro.layout import layout
from micro.variants import VARIANTS
from stats.tables import Column

__all__ = [
    "COLUMNS",
    "GemmPrediction",
    "predict_gemm",
    "prediction_rows",
    "simulate_gemm",
    "simulate_micro",
    "steady_cycles",
]

SHAPE = (4096, 4096, 4096)
_C_BYTES = 2
START_CYCLES = (0.0, 100.0, 200.0, 300.0)  # of the second block after the first, spread over a tile
COLUMNS = [
    Column("arch", "sm", "d"),
    Column("figure", "figure", align="left"),
    Column("arm", "arm", align="left"),
    Column("blocks", "blocks/SM", "d"),
    Column("predicted", "predicted", ".2f"),
    Column("measured", "measured"),
    Column("error_percent", "error %", "+.1f"),
    Column("within", "asked", align="left"),
]
_ASKED = {"load": 2.0, "load+mma": 10.0, "gemm": 15.0}


@functools.lru_cache(maxsize=256)
def simulate_micro(variant: str, work: str, machine: Machine, blocks: int, swizzle: bool = True) -> Simulation:
    """The micro kernel's loop on one SM; ``work`` is load, load+mma or mma."""
    return simulate(micro_program(variant, work, machine.arch, swizzle), machine, blocks=blocks)


@functools.lru_cache(maxsize=512)
def simulate_gemm(
    kernel: Kernel, machine: Machine, blocks: int, copies_of: str | None = None, starts: int = len(START_CYCLES)
) -> tuple[Simulation, ...]:
    """The GEMM's steady pass on one SM, once for each of the first ``starts`` START_CYCLES between its blocks.

    ``copies_of``: with the lines that the copies of this variant touch, instead of its own.
    """
    program = gemm_program(kernel, machine.arch)
    chosen = START_CYCLES[: starts if blocks > 1 else 1]
    return tuple(simulate(program, machine, blocks=blocks, stagger_cycles=start) for start in chosen)


def steady_cycles(
    kernel: Kernel, machine: Machine, blocks: int, copies_of: str | None = None, *, starts: int = len(START_CYCLES)
) -> float:
    """SM cycles per warp k-step of the steady pass, the mean over the starts: where blocks meet is chance."""
    runs = simulate_gemm(kernel, machine, blocks, copies_of, starts)
    return sum(run.cycles_per_kstep for run in runs) / len(runs)


@dataclass(frozen=True)
class GemmPrediction:
    """One launch: SM cycles in all, and per warp k-step as a record's are counted."""

    kernel: Kernel
    steady_cycles_per_kstep: float
    waves: int
    cycles: float
    cycles_per_kstep: float


def predict_gemm(
    kernel: Kernel, machine: Machine, *, blocks_per_sm: int, shape: tuple[int, int, int] = SHAPE
) -> GemmPrediction:
    """Predict one launch of a GEMM kernel on ``shape`` (m, n, k)."""
    sizes = layout().constants
    m, n, k = shape
    blocks = (m // sizes.bm) * (n // sizes.bn)
    at_once = machine.sm_count * blocks_per_sm
    full, left = divmod(blocks, at_once)
    in_waves = [blocks_per_sm] * full + ([math.ceil(left / machine.sm_count)] if left else [])
    cycles = 0.0
    for resident in in_waves:
        per_kstep = steady_cycles(kernel, machine, resident)
        start = machine.l2_latency_cycles + resident * sizes.stage_bytes / machine.l2_bytes_per_clk
        end = resident * sizes.bm * sizes.bn * _C_BYTES / machine.l2_bytes_per_clk
        cycles += k // sizes.mma_k * sizes.warps * resident * per_kstep + start + end
    mean = cycles / warp_ksteps_per_sm(m, n, k, machine.sm_count)
    steady = steady_cycles(kernel, machine, blocks_per_sm)
    return GemmPrediction(kernel, steady, len(in_waves), cycles, mean)


def _row(arch: int, figure: str, arm: str, blocks: int, predicted: float, measured: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"arch": arch, "figure": figure, "arm": arm, "blocks": blocks, "predicted": predicted}
    asked = _ASKED.get(figure)
    if measured is not None:
        error = 100 * (predicted / measured.mean - 1)
        row |= {
            "measured": measured.text(".3f"),
            "measured_mean": measured.mean,
            "measured_low": measured.low,
            "measured_high": measured.high,
            "error_percent": error,
        }
        if asked is not None:
            row["within"] = f"within {asked:g} %" if abs(error) <= asked else f"MISSES {asked:g} %"
    return row


def prediction_rows(arch: int, evidence: Evidence, *, blocks: tuple[int, ...] = (2, 1)) -> list[dict[str, Any]]:
    """Predicted and, where a record of this architecture holds it, measured cycles per warp k-step."""
    mine = evidence if evidence.arch == arch else Evidence()
    rows = []
    for resident in blocks:
        for variant in VARIANTS:
            machine = machine_for(arch, mine, variant=variant, blocks=resident)
            for work in WORKS:
                if work == "mma" and variant != "A3":
                    continue
                run = simulate_micro(variant, work, machine, resident)
                kind = {"load": Work.LOAD, "load+mma": Work.LOAD_MMA, "mma": Work.MMA}[work]
                arm = "mma" if work == "mma" else f"{variant}:{work}"
                measured = mine.micro_level(variant, kind, resident)
                rows.append(_row(arch, work, arm, resident, run.cycles_per_kstep, measured))
    for variant in VARIANTS:
        kernel = Kernel(variant)
        resident = mine.resident_blocks(kernel)
        machine = machine_for(arch, mine, variant=variant, blocks=resident)
        found = predict_gemm(kernel, machine, blocks_per_sm=resident)
        rows.append(_row(arch, "gemm", variant, resident, found.cycles_per_kstep, mine.gemm_level(variant)))
    return rows
