"""How long do an mma and a memory instruction hold a sub-partition's operand reads? The one choice made by fitting.

ld.shared variants take longer with mma than either ceiling says, ldmatrix variants do not, at one block per SM as at
two: something counts instructions, not bytes. Both times are whole cycles, chosen by the worst error on load+mma of
the micro kernel. The trap: whoever fits to what he predicts predicts nothing, so no GEMM figure comes in here, and on
the GPU that was fitted load+mma at two blocks is a fit and not a prediction.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gemm.explain.evidence import Evidence
from gemm.explain.figures import machine_for
from gemm.explain.predict import simulate_micro
from micro.arm_names import Work
from micro.variants import VARIANTS
from stats.errors import UserError
from stats.tables import Column

__all__ = ["COLUMNS", "fit_rows"]

_CANDIDATES = (1, 2, 3, 4)
COLUMNS = [
    Column("mma_operand_cycles", "mma", "d"),
    Column("load_operand_cycles", "memory instruction", "d"),
    *(Column(variant, f"{variant} error %", "+.1f") for variant in VARIANTS),
    Column("worst", "worst %", ".1f"),
]


def fit_rows(evidence: Evidence, arch: int, *, blocks: int = 2) -> list[dict[str, Any]]:
    """Errors of load+mma for every pair of candidates, the least worst error first.

    Raises UserError when the records do not hold load+mma of all variants on sm_``arch``.
    """
    measured = {variant: evidence.micro_level(variant, Work.LOAD_MMA, blocks) for variant in VARIANTS}
    missing = [variant for variant, level in measured.items() if level is None]
    if missing or evidence.arch != arch:
        raise UserError(f"fit: no micro record of sm_{arch} holds load+mma of {', '.join(missing or VARIANTS)}")
    rows = []
    for mma in _CANDIDATES:
        for load in _CANDIDATES:
            row: dict[str, Any] = {"mma_operand_cycles": mma, "load_operand_cycles": load}
            for variant, level in measured.items():
                assert level is not None
                machine = machine_for(arch, evidence, variant=variant, blocks=blocks)
                machine = replace(machine, mma_operand_cycles=mma, load_operand_cycles=load)
                row[variant] = 100 * (
                    simulate_micro(variant, "load+mma", machine, blocks).cycles_per_kstep / level.mean - 1
                )
            rows.append(row | {"worst": max(abs(row[variant]) for variant in VARIANTS)})
    return sorted(rows, key=lambda row: row["worst"])
