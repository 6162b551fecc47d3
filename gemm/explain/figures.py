"""Which simulator parameters has the suite itself measured on this GPU?

mma interval: the mma-only kernel. Load latency and its slope over conflicts: the instruction benchmark, one warp, one
chain. L2 rate and latency, barrier: the stream run. Every one that is missing keeps the table's value and its source.
The trap: a parameter taken from a GEMM figure would make the prediction of that figure worthless, so none is.
"""

from __future__ import annotations

from gemm.explain.evidence import Evidence
from gemm.kernel.variants import Kernel
from gemm.simulator.machine import Machine, machine
from micro.gpu.limits import SUB_PARTITIONS
from micro.model.arm_names import Work
from micro.model.variants import VARIANTS, BLayout

_MMA_PER_KSTEP = 16
_WAYS = 8


def machine_for(arch: int, evidence: Evidence | None = None, *, variant: str = "A3", blocks: int = 2) -> Machine:
    """The machine of sm_``arch`` with what ``evidence`` measured on it; the L2 rate is that of the variant's copies.

    Raises UserError for an architecture without parameters.
    """
    found = machine(arch)
    if evidence is None or evidence.arch != arch:
        return found
    if evidence.sm_count:
        found = found.measured({"sm_count": evidence.sm_count}, "the record's device")
    mma = evidence.micro_level(variant, Work.MMA, blocks) or evidence.micro_level(variant, Work.MMA, 3 - blocks)
    if mma:
        interval = mma.mean * SUB_PARTITIONS / _MMA_PER_KSTEP
        found = found.measured({"mma_interval_cycles": interval}, "mma-only kernel")
    one = evidence.instruction_level("ld.shared.b32/way1/w1.i1")
    many = evidence.instruction_level(f"ld.shared.b32/way{_WAYS}/w1.i1")
    if one and many:
        slope = (many.mean - one.mean) / (_WAYS - 1)
        found = found.measured(
            {"load_latency_cycles": one.mean, "wavefront_latency_cycles": slope}, "instruction benchmark"
        )
    form = "natural" if VARIANTS[variant].b_layout is BLayout.NATURAL else "transposed"
    rate = evidence.stream_level(f"tiles_{form}", "bytes_per_clk_per_sm")
    if rate:
        found = found.measured({"l2_bytes_per_clk": rate.mean}, f"stream run, tiles_{form}")
    latency = evidence.stream_level("cp_async_latency", "cp_async_latency_cycles")
    if latency:
        found = found.measured({"l2_latency_cycles": latency.mean}, "stream run, cp_async_latency")
    barrier = evidence.stream_level("barrier", "barrier_cycles")
    if barrier:
        found = found.measured({"barrier_cycles": barrier.mean}, "stream run, barrier")
    return found


def machine_and_blocks(kernel: Kernel, arch: int, evidence: Evidence) -> tuple[Machine, int]:
    """The machine for a GEMM kernel's variant and residency, and the blocks per SM that a record read back."""
    blocks = evidence.resident_blocks(kernel)
    return machine_for(arch, evidence, variant=kernel.variant, blocks=blocks), blocks
