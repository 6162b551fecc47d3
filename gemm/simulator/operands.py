"""Who reads registers when: mma back to back leave the register file little room, and everything else costs them time.

Measured by ``micro-bench contention``: while mma follow each other without a gap, every load that joins them takes
about a cycle of the sub-partition, an ALU instruction half of one, a store or a copy several, and a memory instruction
does not start in the first cycles of an mma. The trap: with gaps between the mma the same instructions cost nothing,
so these are delays of a busy tensor pipe and no cost per instruction.
"""

from __future__ import annotations

from gemm.simulator.machine import Machine
from gemm.simulator.step import Step
from micro.gpu.limits import SUB_PARTITIONS


class Operands:
    """Tensor pipe and operand reads of the four sub-partitions; times in cycles."""

    def __init__(self, machine: Machine) -> None:
        self.m = machine
        self.tensor_free = [0.0] * SUB_PARTITIONS  # the next mma may issue
        self.memory_free = [0.0] * SUB_PARTITIONS  # a memory instruction may read an operand
        self.made = [0] * SUB_PARTITIONS  # reads that the instruction at the head of the queue has made

    def mma_at(self, smsp: int) -> float:
        """When the next mma can be issued."""
        tensor, memory = self.tensor_free[smsp], self.memory_free[smsp]
        return tensor if tensor > memory else memory

    def mma(self, smsp: int, now: float) -> None:
        """An mma is issued. Issue is in whole cycles; the fraction of an interval is owed to the next."""
        free = self.tensor_free[smsp]
        self.tensor_free[smsp] = (free if free > now - 1 else now) + self.m.mma_interval_cycles
        self.memory_free[smsp] = now + self.m.mma_operand_cycles

    def _delay(self, smsp: int, cycles: float, now: float) -> None:
        if self.tensor_free[smsp] > now:
            self.tensor_free[smsp] += cycles

    def alu(self, smsp: int, now: float) -> None:
        """An ALU or FMA instruction is issued: a busy tensor pipe waits for its operands."""
        self._delay(smsp, self.m.alu_operand_cycles, now)

    def last_read_is_next(self, smsp: int, step: Step) -> bool:
        """The head of the memory queue leaves it with its next read."""
        return self.made[smsp] + 1 >= step.reads

    def read(self, smsp: int, step: Step, now: float) -> bool:
        """The head of the memory queue reads one operand; True when that was its last."""
        made = self.made[smsp]
        self._delay(smsp, min(step.reads - made, 1.0), now)
        self.memory_free[smsp] = now + 1  # it was free
        last = made + 1 >= step.reads
        self.made[smsp] = 0 if last else made + 1
        return last
