"""What does one SM do in a cycle, per architecture? The parameters of the simulator, each with its source.

Few are free: the interval and the latencies come from the suite's own instruction measurements where a record is
given (``measured``), else from the table, whose every entry names who published it. None is fitted to a GEMM figure,
since those are what the simulator predicts. The trap: a published latency depends on the method, so a figure says
which.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from micro.gpu.limits import SUB_PARTITIONS
from stats.base.errors import UserError

_SAME_AS = {"global": "copy"}


@dataclass(frozen=True)
class PerKind:
    """Cycles for each kind of instruction; ``global`` counts as a copy."""

    load: float
    blank: float
    store: float
    copy: float
    commit: float

    def of(self, kind: str) -> float:
        """The cycles of one instruction."""
        cycles: float = getattr(self, _SAME_AS.get(kind, kind))
        return cycles

    def times(self, factor: float) -> PerKind:
        """All of them by a factor."""
        return PerKind(*(factor * cycles for cycles in (self.load, self.blank, self.store, self.copy, self.commit)))


@dataclass(frozen=True)
class Machine:
    """One SM. Intervals are cycles between two issues of a sub-partition to the same pipe; latencies are cycles."""

    arch: int
    mma_interval_cycles: float  # m16n8k16 per sub-partition
    load_latency_cycles: float  # conflict-free ld.shared.b32, issue to the dependent issue
    wavefront_latency_cycles: float  # what one more wavefront of the same access adds to its latency
    l2_latency_cycles: float  # cp.async issue to data in shared memory, an L2 hit
    l2_bytes_per_clk: float  # per SM, with every SM reading
    sm_count: int
    queue_cycles: PerKind = PerKind(load=4, blank=4, store=4, copy=8, commit=8)  # until the next leaves the queue
    mma_operand_cycles: float = 4  # after an mma's issue, in which no memory instruction leaves its queue
    operand_reads: PerKind = PerKind(load=1, blank=0.4, store=3, copy=2, commit=0.3)  # each delays mma by a cycle
    alu_operand_cycles: float = 0.5
    wavefronts_per_cycle: float = 1  # of the SM's port
    port_depth: int = 4  # accesses that wait for the port
    line_cycles: float = 1  # of the SM's way to L2, for each 128-byte line that a copy touches
    port_cycles_per_line: float = 0.25  # of the SM's port, for each such line
    copy_depth: int = 4  # copies that wait for it
    queue_depth: int = 10  # memory instructions that a sub-partition holds
    alu_interval_cycles: float = 2  # 16 lanes per sub-partition
    barrier_cycles: float = 20  # last arrival to the first issue after it
    other_latency_cycles: float = 30  # constant loads and the like
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def mma_cycles_per_kstep(self) -> float:
        """SM cycles of the 16 mma of a warp k-step when the four tensor pipes are always busy."""
        return 16 * self.mma_interval_cycles / SUB_PARTITIONS

    def measured(self, figures: Mapping[str, Any], source: str) -> Machine:
        """This machine with figures (field name -> value) that ``source`` measured."""
        return replace(self, **figures, sources={**self.sources, **dict.fromkeys(figures, source)})


# Chosen by the errors of the arms of the contention and the stream record: `gemm-bench explain fit`.
_CONTENTION = "chosen by the error over the contention record's arms (results/contention-h200.jsonl)"
_READS = "chosen by the error over reads_* of the stream record (results/stream-h200.jsonl)"
_STRUCTURE = {
    "queue_cycles": "load: 8 load/store lanes per sub-partition (A100, H100 whitepapers); copy, commit: what they add "
    "to loads alone in the contention record, blank as a load",
    "queue_depth": _CONTENTION,
    "mma_operand_cycles": _CONTENTION,
    "operand_reads": "load, store: what few of them add to 16 mma in the contention record, in whole reads; copy: "
    "chosen by the error over both records; blank, commit: assumed",
    "alu_operand_cycles": "half of what a prmt adds to 16 mma in the contention record is its own issue: assumed",
    "alu_interval_cycles": "16 integer lanes per sub-partition (CUDA C++ Programming Guide, throughput table)",
    "wavefronts_per_cycle": "128 bytes per clock (CUDA C++ Programming Guide, shared memory)",
    "port_depth": "assumed",
    "line_cycles": _READS,
    "port_cycles_per_line": _READS,
    "copy_depth": _READS,
    "barrier_cycles": "assumed",
    "other_latency_cycles": "assumed",
}

MACHINES: dict[int, Machine] = {
    80: Machine(
        arch=80,
        mma_interval_cycles=8,
        load_latency_cycles=23.1,
        wavefront_latency_cycles=2,
        l2_latency_cycles=290,
        l2_bytes_per_clk=47.4,
        sm_count=108,
        sources=_STRUCTURE
        | {
            "mma_interval_cycles": "1024 FMA/clk/SM (A100 whitepaper); Sun et al. 2022, table 3, measured 1004",
            "load_latency_cycles": "Sun et al. 2022, tables 9 and 10",
            "wavefront_latency_cycles": "Sun et al. 2022, tables 9 and 10: 23, 25, 29, 37 cycles for 1, 2, 4, 8 ways",
            "l2_latency_cycles": "assumed",
            "l2_bytes_per_clk": "5120 B/clk of L2 over 108 SMs (A100 whitepaper)",
        },
    ),
    90: Machine(
        arch=90,
        mma_interval_cycles=6.01,
        load_latency_cycles=23.0,
        wavefront_latency_cycles=2.0,
        l2_latency_cycles=329,
        l2_bytes_per_clk=43.6,
        sm_count=132,
        barrier_cycles=30.6,
        sources=_STRUCTURE
        | {
            "mma_interval_cycles": "mma-only kernel on H200 (results/micro-h200.jsonl)",
            "load_latency_cycles": "micro-bench instructions on H200 (results/instructions-h200.jsonl)",
            "wavefront_latency_cycles": "micro-bench instructions on H200 (results/instructions-h200.jsonl)",
            "l2_latency_cycles": "cp_async_latency on H200 (results/stream-h200.jsonl)",
            "l2_bytes_per_clk": "tiles_natural on H200 (results/stream-h200.jsonl)",
            "barrier_cycles": "barrier on H200 (results/stream-h200.jsonl)",
        },
    ),
}


def machine(arch: int) -> Machine:
    """The table's machine for sm_``arch``. Raises UserError where the table has none."""
    if arch not in MACHINES:
        known = ", ".join(f"sm_{a}" for a in MACHINES)
        raise UserError(
            f"sm_{arch}: no figures of it are on file for the simulator (cycles between mma, latency of shared memory "
            f"and of L2, rate of L2: each measured or published); choose from {known}"
        )
    return MACHINES[arch]
