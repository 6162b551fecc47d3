"""What should each kernel take, from micro figures and ceilings alone, and how far is the measurement from it?

Micro kernels: the simulated loop. GEMM: the SM with the most blocks, simulated whole: each block waits for its first
tile from L2, runs its passes, writes C, and leaves its place to the next. The trap: two resident blocks do not end
together, so an SM runs its last one alone for a while, which no steady figure shows.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

from gemm.explain.evidence import Evidence, warp_ksteps_per_sm
from gemm.explain.figures import machine_and_blocks, machine_for
from gemm.kernel.variants import LADDER_PAIRS, Kernel
from gemm.simulator.kernels import WORKS, copy_lines, gemm_program, micro_program, reads_program
from gemm.simulator.machine import Machine
from gemm.simulator.program import Program
from gemm.simulator.simulate import Blocks, Simulation
from gemm.simulator.simulated import simulate
from micro.model.arm_names import Work
from micro.model.layout import layout
from micro.model.variants import VARIANTS
from stats.analysis.levels import Level
from stats.base.tables import Column

SHAPE = (4096, 4096, 4096)
_C_BYTES = 2
_PASSES = 12  # of a block, in the place of all of them: a prediction takes seconds
_READS_BLOCKS = 2  # on an SM, of the stream run
START_CYCLES = (200.0, 700.0)  # of the second block after the first
COLUMNS = [
    Column("arch", "sm", "d"),
    Column("figure", "figure", align="left"),
    Column("arm", "arm", align="left"),
    Column("blocks", "blocks/SM", "d", legend="resident"),
    Column("predicted", "predicted", ".2f"),
    Column("near", "mma ±2 %", align="left", legend="the prediction if an mma took 2 % less or more"),
    Column("measured", "measured"),
    Column("error_percent", "error %", "+.1f"),
    Column("within", "asked", align="left", legend="the error that was allowed beforehand"),
]
_NEAR = (0.98, 1.0, 1.02)  # of the mma interval
_ASKED = {"load": 2.0, "load+mma": 10.0, "gemm": 15.0}


@functools.lru_cache(maxsize=256)
def simulate_micro(variant: str, work: str, machine: Machine, blocks: int, swizzle: bool = True) -> Simulation:
    """The micro kernel's loop on one SM; ``work`` is load, load+mma or mma."""
    return simulate(micro_program(variant, work, machine.arch, swizzle), machine, blocks=blocks)


@functools.lru_cache(maxsize=64)
def predict_reads(variant: str, machine: Machine) -> float:
    """SM cycles per warp k-step of the GEMM's copies and reads without mma (``reads_*`` of the stream run)."""
    found = _whole(reads_program(variant, machine.arch), machine, _READS_BLOCKS, SHAPE, writes_c=False)
    return found.cycles / warp_ksteps_per_sm(*SHAPE, machine.sm_count)


@functools.lru_cache(maxsize=512)
def steady_cycles(kernel: Kernel, machine: Machine, blocks: int, copies_of: str | None = None) -> float:
    """SM cycles per warp k-step of the steady pass, ``blocks`` resident, the mean over how far apart they start.

    ``copies_of``: with the lines that the copies of this variant touch, instead of its own.
    """
    program = gemm_program(kernel, machine.arch)
    if copies_of is not None:
        lines = copy_lines(VARIANTS[copies_of])
        ops = (replace(op, lines=lines) if op.kind in ("copy", "global") else op for op in program.ops)
        program = replace(program, ops=tuple(ops))
    starts = START_CYCLES[: 2 if blocks > 1 else 1]
    runs = [simulate(program, machine, blocks=Blocks(blocks, blocks, start), loops=_PASSES) for start in starts]
    return sum(run.cycles_per_kstep for run in runs) / len(runs)


def _whole(
    program: Program, machine: Machine, blocks_per_sm: int, shape: tuple[int, int, int], *, writes_c: bool = True
) -> Simulation:
    """The SM with the most blocks of ``shape`` (m, n, k), each shortened to a few passes, its start and end with it."""
    sizes = layout().constants
    m, n, k = shape
    most = math.ceil((m // sizes.bm) * (n // sizes.bn) / machine.sm_count)
    passes = k / sizes.mma_k / program.ksteps
    loops = max(1, min(_PASSES, round(passes)))
    scale = passes / loops
    first_tile = machine.l2_latency_cycles + sizes.stage_bytes / machine.l2_bytes_per_clk
    c_bytes = sizes.bm * sizes.bn * _C_BYTES if writes_c else 0
    last_tile = c_bytes / machine.l2_bytes_per_clk
    blocks = Blocks(blocks_per_sm, most, START_CYCLES[0] / scale, first_tile / scale, last_tile / scale)
    found = simulate(program, machine, blocks=blocks, loops=loops)
    return replace(found, cycles=found.cycles * scale)


@dataclass(frozen=True)
class GemmPrediction:
    """One launch: SM cycles in all, and per warp k-step as a record's are counted; the blocks of the busiest SM."""

    kernel: Kernel
    most_blocks: int
    cycles: float
    cycles_per_kstep: float


@functools.lru_cache(maxsize=64)
def predict_gemm(
    kernel: Kernel, machine: Machine, *, blocks_per_sm: int, shape: tuple[int, int, int] = SHAPE
) -> GemmPrediction:
    """Predict one launch of a GEMM kernel on ``shape`` (m, n, k), by the SM that has most to do."""
    sizes = layout().constants
    m, n, k = shape
    found = _whole(gemm_program(kernel, machine.arch), machine, blocks_per_sm, shape)
    mean = found.cycles / warp_ksteps_per_sm(m, n, k, machine.sm_count)
    return GemmPrediction(kernel, found.warps // sizes.warps, found.cycles, mean)


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


def _near(kernel: Kernel, machine: Machine, resident: int) -> dict[str, Any]:
    """Least and most cycles per warp k-step if an mma takes a little less or more: how far the schedule can jump."""
    scaled = (replace(machine, mma_interval_cycles=factor * machine.mma_interval_cycles) for factor in _NEAR)
    found = [predict_gemm(kernel, on, blocks_per_sm=resident).cycles_per_kstep for on in scaled]
    return {"near": f"{min(found):.2f} – {max(found):.2f}", "near_low": min(found), "near_high": max(found)}


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
        machine = machine_for(arch, mine, variant=variant)
        reads = mine.stream_level(f"reads_{variant}", "cycles_per_kstep")
        predicted = predict_reads(variant, machine)
        rows.append(_row(arch, "copies+load", f"reads_{variant}", _READS_BLOCKS, predicted, reads))
    gemm: dict[str, tuple[float, Level | None]] = {}
    for variant in VARIANTS:
        kernel = Kernel(variant)
        machine, resident = machine_and_blocks(kernel, arch, mine)
        found = predict_gemm(kernel, machine, blocks_per_sm=resident)
        gemm[variant] = found.cycles_per_kstep, mine.gemm_level(variant)
        rows.append(_row(arch, "gemm", variant, resident, *gemm[variant]) | _near(kernel, machine, resident))
    return rows + [_ratio_row(arch, pair, gemm, mine) for pair in LADDER_PAIRS]


def _ratio_row(
    arch: int, pair: tuple[str, str], gemm: dict[str, tuple[float, Level | None]], mine: Evidence
) -> dict[str, Any]:
    (predicted_a, level_a), (predicted_b, level_b) = (gemm[name] for name in pair)
    predicted = predicted_a / predicted_b
    row = {"arch": arch, "figure": "gemm ratio", "arm": " / ".join(pair), "predicted": predicted}
    row["blocks"] = mine.resident_blocks(Kernel(pair[0]))
    if level_a and level_b:
        measured = level_a.mean / level_b.mean
        row |= {"measured": f"{measured:.3f}", "measured_mean": measured}
        row["error_percent"] = 100 * (predicted / measured - 1)
    return row
