"""What would shorten a kernel most: faster tensor cores, a wider port, cheaper instructions, or a faster L2?

Ceilings name what binds only where one is reached. Where none is, the simulator is asked: one resource is made twice
as fast, the others stay. The trap: a resource that two others wait for in turn saves little alone, so small savings
name nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from gemm.simulator.machine import Machine


def _faster(machine: Machine) -> dict[str, Machine]:
    """The machine with one resource twice as fast, by the resource's name."""
    m = machine
    return {
        "tensor": replace(m, mma_interval_cycles=m.mma_interval_cycles / 2),
        "port": replace(
            m, wavefronts_per_cycle=2 * m.wavefronts_per_cycle, wavefront_latency_cycles=m.wavefront_latency_cycles / 2
        ),
        "issue": replace(
            m,
            queue_cycles=m.queue_cycles.times(0.5),
            operand_reads=m.operand_reads.times(0.5),
            mma_operand_cycles=m.mma_operand_cycles / 2,
            alu_interval_cycles=m.alu_interval_cycles / 2,
            alu_operand_cycles=m.alu_operand_cycles / 2,
        ),
        "L2": replace(
            m,
            l2_bytes_per_clk=2 * m.l2_bytes_per_clk,
            l2_latency_cycles=m.l2_latency_cycles / 2,
            line_cycles=m.line_cycles / 2,
        ),
    }


def relief(machine: Machine, cycles: Callable[[Machine], float]) -> dict[str, float]:
    """Per cent of the simulated time that each resource, twice as fast, would save; the largest first.

    ``cycles`` simulates the kernel on a machine.
    """
    now = cycles(machine)
    saved = {name: 100 * (1 - cycles(faster) / now) for name, faster in _faster(machine).items()}
    return dict(sorted(saved.items(), key=lambda item: -item[1]))


def relief_text(saved: Mapping[str, float]) -> str:
    """``port 8 %, L2 5 %, issue 0 %``: in the order of ``saved``."""
    return ", ".join(f"{name} {round(percent)} %" for name, percent in saved.items())
