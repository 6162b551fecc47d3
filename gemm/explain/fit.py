"""Which values of the parameters that nobody publishes fit the records best? The few of the simulator that are fitted.

What nobody publishes is chosen by the errors over two records without a GEMM in them: contention (mma beside other
instructions, 44 arms) and the stream run's reads_* (the GEMM's copies and reads, nothing multiplied). One parameter is
varied at a time around the choice. The trap: whoever fits to what he predicts predicts nothing, so neither load+mma of
the variants nor any GEMM figure comes in here. (The order in which warps issue is no parameter: these records hardly
tell one rule from another, and it was chosen with the GEMM's measurements in view.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from operator import attrgetter
from typing import Any

from gemm.explain.evidence import Evidence
from gemm.explain.figures import machine_for
from gemm.explain.predict import predict_reads
from gemm.simulator.kernels import contention_program
from gemm.simulator.machine import Machine
from gemm.simulator.simulated import simulate
from micro.bench.contention.design import ARMS, WARPS
from micro.model.variants import VARIANTS
from stats.base.errors import UserError
from stats.base.tables import Column
from stats.run.progress import announced_steps

_NO_LIMIT = 1e6
_LOOPS = 6  # trips of four passes
_VARIED: dict[str, tuple[float, ...]] = {
    "mma_operand_cycles": (3, 4, 5),
    "operand_reads.copy": (1, 2, 3),
    "queue_depth": (8, 10, 12),
    "line_cycles": (0.85, 1.0, 1.15),
    "port_cycles_per_line": (0.0, 0.25, 0.5),
    "copy_depth": (3, 4, 5),
}
COLUMNS = [
    Column("parameter", "parameter", align="left"),
    Column("value", "value", "g"),
    Column("chosen", "chosen", align="left"),
    Column("contention_rms", "contention: rms error %", ".1f", short="conten-tion: rms error %"),
    Column("contention_worst", "worst %", "+.1f"),
    Column("worst_arm", "worst arm", align="left"),
    Column("reads_rms", "reads: rms error %", ".1f"),
    Column("reads_worst", "worst %", "+.1f"),
]


def contention_rows(evidence: Evidence, machine: Machine) -> list[dict[str, Any]]:
    """Simulated and measured SM cycles per warp pass of every arm that the contention record holds.

    Its copies come from bytes that other copies do not want at the same time, faster than the GEMM's tiles: L2's rate
    is taken for no limit.
    """
    machine = replace(machine, l2_bytes_per_clk=_NO_LIMIT)
    rows = []
    for arm in ARMS:
        level = evidence.contention_level(arm.name)
        if level is not None:
            program = contention_program(arm, machine.arch)
            found = simulate(program, machine, blocks=1, warps_per_block=WARPS, loops=_LOOPS).cycles_per_kstep
            error = 100 * (found / level.mean - 1)
            rows.append({"arm": arm.name, "predicted": found, "measured": level.mean, "error_percent": error})
    return rows


def _varied(machine: Machine, name: str, value: float) -> Machine:
    """The machine with one parameter changed: a field, or with a dot a kind of instruction within one."""
    part, _, kind = name.partition(".")
    changed: Any = replace(getattr(machine, part), **{kind: value}) if kind else value
    return replace(machine, **{part: changed})


def _reads(evidence: Evidence, machine: Machine) -> Iterator[float]:
    """Errors of reads_*, in per cent, each at the L2 rate of the variant's copies, as predictions have it."""
    for variant in VARIANTS:
        level = evidence.stream_level(f"reads_{variant}", "cycles_per_kstep")
        if level is not None:
            rate = machine_for(machine.arch, evidence, variant=variant).l2_bytes_per_clk
            yield 100 * (predict_reads(variant, replace(machine, l2_bytes_per_clk=rate)) / level.mean - 1)


def fit_rows(evidence: Evidence, arch: int) -> list[dict[str, Any]]:
    """Errors over both records for each parameter's candidates, the others as chosen.

    Raises UserError when the records hold no contention or no reads on sm_``arch``.
    """
    chosen = machine_for(arch, evidence)
    missing = evidence.contention is None or evidence.stream_level("reads_A3", "cycles_per_kstep") is None
    if missing or evidence.arch != arch:
        raise UserError(f"fit: needs a contention record and a stream record with reads_* of sm_{arch}; record them")
    rows = []
    candidates = [(name, value) for name, values in _VARIED.items() for value in values]
    with announced_steps(len(candidates)) as step:
        for name, value in candidates:
            step(f"{name} = {value:g}")
            machine = _varied(chosen, name, value)
            arms = contention_rows(evidence, machine)
            worst = max(arms, key=lambda row: abs(row["error_percent"]))
            reads = [] if name == "mma_operand_cycles" else list(_reads(evidence, machine))  # nothing multiplies there
            rows.append(
                {
                    "parameter": name,
                    "value": value,
                    "chosen": "chosen" if value == attrgetter(name)(chosen) else "",
                    "contention_rms": _rms([row["error_percent"] for row in arms]),
                    "contention_worst": worst["error_percent"],
                    "worst_arm": worst["arm"],
                    "reads_rms": _rms(reads) if reads else None,
                    "reads_worst": max(reads, key=abs, default=None),
                }
            )
    return rows


def _rms(errors: list[float]) -> float:
    return float((sum(error**2 for error in errors) / len(errors)) ** 0.5)
