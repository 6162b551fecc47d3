"""Which ceiling binds a variant: tensor, shared-memory port, L2, issue, or none of them but waiting?

Everything in SM cycles per warp k-step, so that ceilings compare with each other and with the GEMM. tensor: mma-only;
port: load-only (what copies bring takes none of its time: the contention record); L2: the copies alone; issue: a count
of instructions. The first three are measured where a record holds them, else modelled. The trap: ceilings are lower
bounds and their maximum is no prediction; what the simulator adds to it is barriers, latency and collisions, shown as
waiting.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from gemm.explain.evidence import Evidence
from gemm.explain.figures import machine_and_blocks
from gemm.explain.predict import predict_gemm, steady_cycles
from gemm.explain.relief import relief, relief_text
from gemm.kernel.variants import Kernel
from gemm.simulator.kernels import gemm_program
from gemm.simulator.machine import Machine
from gemm.simulator.program import QUEUED, Program
from micro.gpu.limits import SUB_PARTITIONS
from micro.model.arm_names import Work
from micro.model.banks import kstep_wavefronts
from micro.model.layout import layout
from micro.model.variants import VARIANTS, BLayout
from stats.base.tables import Column

WAITING_SHARE = 0.15  # of the GEMM's cycles above the highest ceiling: beyond it waiting binds, not a ceiling
COLUMNS = [
    Column("arch", "sm", "d", min_width=120),
    Column("kernel", "kernel", align="left"),
    Column("tensor", "tensor", ".2f", legend="the tensor cores"),
    Column("port", "port", ".2f", legend="shared memory's port"),
    Column("l2", "L2", ".2f", legend="copies from L2"),
    Column("issue", "issue", ".2f", legend="the instructions' issue slots"),
    Column("waiting", "waiting", ".2f", legend="barriers, latency and collisions on top of the highest"),
    Column("predicted", "predicted GEMM", ".2f"),
    Column("measured", "measured GEMM"),
    Column("binds", "binds", align="left", legend="the ceiling that is highest"),
    Column("relief", "would save, twice as fast", align="left", min_width=120),
    Column("sources", "ceilings from", align="left", min_width=140),
]


@dataclass(frozen=True)
class Ceiling:
    """Least SM cycles per warp k-step that one resource allows, and where the figure comes from."""

    name: str
    cycles: float
    source: str


@dataclass(frozen=True)
class Roofline:
    """All ceilings of one GEMM kernel and the simulated time above them."""

    kernel: Kernel
    machine: Machine
    tensor: Ceiling
    port: Ceiling
    l2: Ceiling
    issue: Ceiling
    predicted: float
    blocks: int

    @property
    def ceilings(self) -> tuple[Ceiling, ...]:
        """Highest first."""
        return tuple(sorted((self.tensor, self.port, self.l2, self.issue), key=lambda c: -c.cycles))

    @property
    def waiting(self) -> float:
        """Predicted cycles above the highest ceiling: barriers, pipeline latency, collisions, the last wave."""
        return self.predicted - self.ceilings[0].cycles

    @functools.cached_property
    def relief(self) -> dict[str, float]:
        """Per cent of the simulated time that each resource would save if it were twice as fast."""
        return relief(self.machine, lambda on: steady_cycles(self.kernel, on, self.blocks))

    @property
    def binds(self) -> str:
        """The highest ceilings (equal within 2 %); "waiting" before them where more than WAITING_SHARE lies above."""
        highest = self.ceilings[0].cycles
        top = " and ".join(ceiling.name for ceiling in self.ceilings if ceiling.cycles > 0.98 * highest)
        return f"waiting, on top of {top}" if self.waiting > WAITING_SHARE * self.predicted else top


def _port_loads(arch: int, kernel: Kernel, evidence: Evidence, blocks: int) -> tuple[float, str]:
    measured = None
    if evidence.arch == arch:
        measured = evidence.micro_level(kernel.variant, Work.LOAD, blocks, kernel.swizzle)
    if measured:
        return measured.mean, "load-only"
    count = kstep_wavefronts(VARIANTS[kernel.variant], kernel.swizzle)
    return float(max(count.total, count.instructions)), "bank model"


def issue_ceiling(program: Program, machine: Machine) -> Ceiling:
    """The higher of two counts of instructions: scheduler slots and what the memory queues take."""
    counts = {
        "scheduler slots": float(len(program.ops)),
        "memory queues": sum(machine.queue_cycles.of(op.kind) for op in program.ops if op.kind in QUEUED),
    }
    name, cycles = max(counts.items(), key=lambda item: item[1])
    return Ceiling("issue", cycles / SUB_PARTITIONS / program.ksteps, name)


@dataclass(frozen=True)
class _Units:
    """The ceilings that records and addresses give."""

    tensor: Ceiling
    port: Ceiling
    l2: Ceiling


def _units(kernel: Kernel, arch: int, mine: Evidence, machine: Machine, blocks: int) -> _Units:
    sizes = layout().constants
    tile_ksteps = sizes.warps * sizes.k_steps
    source = machine.sources["mma_interval_cycles"]
    tensor = Ceiling("tensor", machine.mma_cycles_per_kstep, "mma-only" if source == "mma-only kernel" else source)
    port = Ceiling("port", *_port_loads(arch, kernel, mine, blocks))
    form = "natural" if VARIANTS[kernel.variant].b_layout is BLayout.NATURAL else "transposed"
    copied = mine.stream_level(f"tiles_{form}", "cycles_per_kstep")
    if copied:
        l2 = Ceiling("L2", copied.mean, "stream run")
    else:
        source = machine.sources["l2_bytes_per_clk"]
        l2 = Ceiling("L2", sizes.stage_bytes / tile_ksteps / machine.l2_bytes_per_clk, source)
    return _Units(tensor, port, l2)


def units_ceilings(kernel: Kernel, arch: int, evidence: Evidence) -> dict[str, float]:
    """tensor, port and L2 in cycles per warp k-step: the ceilings that need no machine code (issue does)."""
    mine = evidence if evidence.arch == arch else Evidence()
    units = _units(kernel, arch, mine, *machine_and_blocks(kernel, arch, mine))
    return {ceiling.name: ceiling.cycles for ceiling in (units.tensor, units.port, units.l2)}


def roofline(kernel: Kernel, arch: int, evidence: Evidence) -> Roofline:
    """The ceilings of a GEMM kernel on sm_``arch``, from records of that architecture where they hold them."""
    mine = evidence if evidence.arch == arch else Evidence()
    machine, blocks = machine_and_blocks(kernel, arch, mine)
    units = _units(kernel, arch, mine, machine, blocks)
    issue = issue_ceiling(gemm_program(kernel, arch), machine)
    predicted = predict_gemm(kernel, machine, blocks_per_sm=blocks).cycles_per_kstep
    return Roofline(
        kernel,
        machine,
        units.tensor,
        units.port,
        units.l2,
        issue,
        predicted,
        blocks,
    )


def roofline_rows(arch: int, evidence: Evidence, kernels: list[Kernel] | None = None) -> list[dict[str, Any]]:
    """One row per kernel (default: every variant as in the main table)."""
    rows = []
    for kernel in kernels or [Kernel(variant) for variant in VARIANTS]:
        found = roofline(kernel, arch, evidence)
        measured = evidence.gemm_level(kernel.name) if evidence.arch == arch else None
        rows.append(
            {
                "arch": arch,
                "kernel": kernel.name,
                "tensor": found.tensor.cycles,
                "port": found.port.cycles,
                "l2": found.l2.cycles,
                "issue": found.issue.cycles,
                "waiting": found.waiting,
                "predicted": found.predicted,
                "measured": measured.text(".3f") if measured else None,
                "measured_mean": measured.mean if measured else None,
                "binds": found.binds,
                "relief": relief_text(found.relief),
                "sources": "; ".join(f"{c.name}: {c.source}" for c in found.ceilings),
            }
        )
    return rows
