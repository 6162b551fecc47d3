"""What does one instruction cost on one machine? Worked out once, before the simulator issues it thousands of times.

The simulator's hot loops read attributes of a ``Step`` and nothing else. The trap: results are compared to the byte, so
only what was one operand of a sum stands here; sums of times are made in the order in which they always were.
"""

from __future__ import annotations

from gemm.simulator.machine import Machine
from gemm.simulator.program import QUEUED, Op

_TO_L2 = ("copy", "global")
_ADDRESSES = 32  # of a load whose every lane gives one, which is one read


class Step:
    """One instruction and its costs on one machine, in cycles; ``reads``: operand reads, a cycle each."""

    __slots__ = (
        "argument",
        "kind",
        "line_cycles",
        "more_latency_cycles",
        "port_cycles",
        "queue_cycles",
        "queued",
        "reads",
        "sets_on_read",
        "sets_on_result",
        "stall_cycles",
        "to_l2",
        "waits_for",
    )

    def __init__(self, op: Op, machine: Machine) -> None:
        self.kind, self.argument, self.waits_for = op.kind, op.argument, op.waits_for
        self.sets_on_result, self.sets_on_read = op.sets_on_result, op.sets_on_read
        self.stall_cycles = max(1, op.stall_cycles)
        self.queued, self.to_l2 = op.kind in QUEUED, op.kind in _TO_L2
        if not self.queued:
            return
        reads = machine.operand_reads.of(op.kind)
        self.reads = reads * op.addresses / _ADDRESSES if op.kind == "load" else reads  # fewer addresses, part of one
        self.line_cycles = op.lines * machine.line_cycles
        self.port_cycles = (
            op.lines * machine.port_cycles_per_line
            if self.to_l2
            else max(1, op.wavefronts) / machine.wavefronts_per_cycle
        )
        self.more_latency_cycles = machine.wavefront_latency_cycles * (op.wavefronts - 1)
        # A wavefront adds 2 cycles to the latency of an access and 2 to the time between accesses of one warp, but 1 to
        # those of the SM (instruction benchmark on H200): a sub-partition takes a wavefront every other cycle.
        result = machine.wavefront_latency_cycles * op.wavefronts if op.kind == "load" else 0.0
        at_the_head = max(0, reads - 1)  # cycles already spent there
        self.queue_cycles = max(machine.queue_cycles.of(op.kind) - at_the_head, result)
