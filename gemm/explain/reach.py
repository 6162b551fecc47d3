"""How far does the simulator reach? Every GEMM kernel that the records hold, predicted beside what was measured.

The ladder's four were in view when the rule by which warps issue was chosen; other stage counts, schedules, waits,
epilogues and the layout without swizzle are the wider test. The trap: a model judged by the kernels that it was made
for looks better than it is.
"""

from __future__ import annotations

from typing import Any

from gemm.explain.evidence import Evidence
from gemm.explain.figures import machine_and_blocks
from gemm.explain.predict import predict_gemm
from gemm.kernel.variants import Kernel, every_kernel
from micro.model.variants import VARIANTS
from stats.base.errors import UserError
from stats.base.tables import Column
from stats.run.progress import announced_steps

COLUMNS = [
    Column("arm", "arm", align="left"),
    Column("ladder", "of the ladder", align="left", legend="one of the four kernels compared, not one of them changed"),
    Column("blocks", "blocks/SM", "d", legend="resident"),
    Column("predicted", "predicted, SM cycles per warp k-step", ".2f"),
    Column("measured", "measured, likewise"),
    Column("error_percent", "error %", "+.1f", legend="predicted against measured"),
]


def reach_rows(evidence: Evidence, arch: int) -> list[dict[str, Any]]:
    """Predicted and measured SM cycles per warp k-step of each recorded kernel, the ladder's first.

    Raises UserError when no record of sm_``arch`` holds a GEMM kernel.
    """
    ladder = [Kernel(variant) for variant in VARIANTS]
    kernels = [*ladder, *(kernel for kernel in every_kernel() if kernel not in ladder)]
    levels = {kernel: evidence.gemm_level(kernel.name) for kernel in kernels if evidence.arch == arch}
    held = [(kernel, level) for kernel, level in levels.items() if level is not None]
    if not held:
        raise UserError(
            f"kernels: no record holds accepted cells of a GEMM on sm_{arch}; record one, or give it with --record"
        )
    rows = []
    with announced_steps(len(held)) as step:
        for kernel, level in held:
            step(kernel.name)
            machine, resident = machine_and_blocks(kernel, arch, evidence)
            predicted = predict_gemm(kernel, machine, blocks_per_sm=resident).cycles_per_kstep
            rows.append(
                {
                    "arm": kernel.name,
                    "ladder": "yes" if kernel in ladder else "no",
                    "blocks": resident,
                    "predicted": predicted,
                    "measured": level.text(".3f"),
                    "measured_mean": level.mean,
                    "error_percent": 100 * (predicted / level.mean - 1),
                }
            )
    return rows
