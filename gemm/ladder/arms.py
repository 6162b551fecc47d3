"""The arms of the GEMM: one per kernel, cuBLAS, and the A/A twin; all gated before any is timed.

A factory for ``stats.run.trials``: it runs in each fresh process, builds or finds the library, makes the operands, lets
the gate judge every kernel on exactly these operands and returns one callable per arm. The trap: two variants at
different residency differ in more than the read path, so residency is read back and, where the config says so, must be
equal.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Literal

from gemm.kernel.library import GemmLibrary, build_gemm, header_facts
from gemm.kernel.operands import Operands, make_operands
from gemm.kernel.residency import residency_faults
from gemm.kernel.variants import Kernel
from gemm.ladder.check import gate
from micro.gpu.build import load_copy
from micro.gpu.cells import CellTimer
from stats.base.errors import UserError
from stats.record.schema import Cell
from stats.run.worker import ArmSet

_WARMUP_LAUNCHES = 1  # leaves this arm's operands in L2, whatever ran before


def cublas_name(dtype: str) -> str:
    """``cublas`` for bf16, ``cublas/fp16``."""
    return "cublas" if dtype == "bf16" else f"cublas/{dtype}"


def _cublas_launch(operands: Operands) -> Callable[[], object]:
    import torch

    out = torch.empty_like(operands.c)
    return functools.partial(torch.matmul, operands.a, operands.b, out=out)


def _measure(timer: CellTimer, launch: Callable[[], object], launches: int) -> Cell:
    for _ in range(_WARMUP_LAUNCHES):
        launch()
    return timer.measure(launch, launches)


def gemm_arms(
    *,
    kernels: Sequence[Kernel],
    shape: tuple[int, int, int],
    reference: str,
    with_cublas: bool,
    equal_residency: Literal["require", "warn"],
    launches: int,
    l2_mode: Literal["hot", "flushed"],
    device_index: int,
    seed: int,
) -> ArmSet:
    """Build, gate and return the arms of one process on ``shape`` (m, n, k).

    Raises UserError for a bad shape, too little memory or, where equal residency is required, a kernel that departs
    from it; BenchError naming the kernel when the gate finds one wrong.
    """

    timer = CellTimer(device_index, l2_mode=l2_mode)
    arch = timer.device.arch
    built = build_gemm(kernels, [arch])
    library = GemmLibrary(built)
    operands = {
        dtype: make_operands(*shape, dtype, seed) for dtype in dict.fromkeys(kernel.dtype for kernel in kernels)
    }
    for dtype, matrices in operands.items():
        gate(library, [kernel for kernel in kernels if kernel.dtype == dtype], matrices)

    def launch_of(source: GemmLibrary, kernel: Kernel) -> Callable[[], None]:
        matrices = operands[kernel.dtype]
        return source.launcher(kernel, matrices.a, matrices.b_for(kernel.b_layout), matrices.c)

    static: dict[str, dict[str, Any]] = {
        kernel.name: {**asdict(library.resources(kernel)), "b_transposed": bool(kernel.b_layout)} for kernel in kernels
    }
    faults = residency_faults(static)
    if faults and equal_residency == "require":
        raise UserError(f"{faults[0]}; the config requires equal residency (equal_residency: require)")
    launch: dict[str, Callable[[], object]] = {kernel.name: launch_of(library, kernel) for kernel in kernels}
    twin_of = next(kernel for kernel in kernels if kernel.name == reference)
    launch[f"{reference}.twin"] = launch_of(GemmLibrary(load_copy(built, "twin")), twin_of)
    if with_cublas:
        launch |= {cublas_name(dtype): _cublas_launch(matrices) for dtype, matrices in operands.items()}
    m, n, k = shape
    return ArmSet(
        arms={name: functools.partial(_measure, timer, function, launches) for name, function in launch.items()},
        static=static,
        device=timer.device,
        **header_facts(built),
        workload={"kernel": "gemm", "m": m, "n": n, "k": k, "dtype": "+".join(operands)},
    )
