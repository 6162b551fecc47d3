"""``gemm-bench sass``: the main loop of every GEMM kernel in machine code, without a GPU.

The same command as ``micro-bench sass`` over other kernels: here a kernel is told by its template arguments, and the
groups of ``cuda/group_*.cu`` that hold the wanted kernels are compiled. The trap: a group holds more kernels than
were asked for (four STAGES, five departures), so what is shown is chosen by kernel, not by group.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from micro.cli_static import (
    ALL_VARIANTS,
    ArchOption,
    CubinOption,
    DiffOption,
    FormatOption,
    OutputFormat,
    SwizzleChoice,
    SwizzleOption,
    VariantsOption,
    run_sass,
)

if TYPE_CHECKING:
    from gemm.variants import Kernel as GemmKernel
    from micro.sass_report import Kernel, KernelSpec

__all__ = ["Builds", "compile_and_count", "describe_gemm", "register"]


class Builds(str, Enum):
    """Which builds of the ladder are shown."""

    main = "main"
    stages = "stages"
    departures = "departures"
    all = "all"


def _kernel_of(mangled: str) -> GemmKernel | None:
    from gemm.variants import Epilogue, Kernel, LoadMode, Schedule, Wait
    from micro.cubin import parse_instance
    from micro.variants import VARIANTS

    instance = parse_instance(mangled, "gemm_kernel")
    if instance is None:
        return None
    element, *numbers = instance.arguments
    mode, b_layout, load_mode, stages, swizzle, epilogue, schedule, wait, blocks = (int(n) for n in numbers)
    return Kernel(
        variant=next(v.name for v in VARIANTS.values() if (v.read_mode, v.b_layout) == (mode, b_layout)),
        dtype={"__nv_bfloat16": "bf16", "__half": "fp16"}[str(element)],
        load_mode=LoadMode(load_mode),
        stages=stages,
        swizzle=bool(swizzle),
        epilogue=Epilogue(epilogue),
        schedule=Schedule(schedule),
        wait=Wait(wait),
        blocks_per_sm=blocks,
    )


def describe_gemm(mangled: str) -> KernelSpec | None:
    """The spec of an instance of ``gemm_kernel``; None for any other function."""
    from gemm.variants import Epilogue
    from micro.layout import layout
    from micro.sass_report import KernelSpec

    kernel = _kernel_of(mangled)
    if kernel is None:
        return None
    sizes = layout().constants
    shared = kernel.stages * sizes.stage_bytes
    if kernel.epilogue is Epilogue.STAGED:  # the tile of C, 2 bytes an element, takes the place of the ring
        shared = max(shared, 2 * sizes.bm * sizes.bn)
    return KernelSpec(
        labels={
            "variant": kernel.variant,
            "swizzle": "on" if kernel.swizzle else "off",
            "build": replace(kernel, swizzle=True).departure.lstrip("/") or "main",
        },
        loads=True,
        mma=True,
        threads=32 * sizes.warps,
        dynamic_shared_bytes=lambda loop: shared,
    )


def _wanted(builds: Builds, swizzles: tuple[bool, ...]) -> list[GemmKernel]:
    from gemm.variants import LoadMode, every_kernel

    found = []
    for kernel in every_kernel():
        plain = kernel.dtype == "bf16" and kernel.load_mode is LoadMode.CP_ASYNC and kernel.group != "departures"
        fits = {
            Builds.main: plain and kernel.stages == 3,
            Builds.stages: plain,
            Builds.departures: kernel.group == "departures",
            Builds.all: True,
        }
        if fits[builds] and kernel.swizzle in swizzles:
            found.append(kernel)
    return found


def compile_and_count(kernels: list[GemmKernel], archs: list[int]) -> list[Kernel]:
    """Compile the groups that hold ``kernels`` for ``archs`` and count those kernels.

    Raises UserError: no compiler, unknown architecture. Raises SassError: a loop that cannot be counted.
    """
    from gemm.library import CUDA_DIR, INCLUDE_DIRS
    from micro.build import compile_cubin
    from micro.sass_report import analyse_cubin, in_parallel

    wanted = set(kernels)
    groups = sorted({kernel.group for kernel in kernels})

    def describe(mangled: str) -> KernelSpec | None:
        return describe_gemm(mangled) if _kernel_of(mangled) in wanted else None

    def one(item: tuple[int, str]) -> list[Kernel]:
        arch, group = item
        return analyse_cubin(compile_cubin(CUDA_DIR / f"group_{group}.cu", arch, include_dirs=INCLUDE_DIRS), describe)

    return in_parallel(one, [(arch, group) for arch in archs for group in groups])


def sass(
    arch: ArchOption = None,
    variants: VariantsOption = ALL_VARIANTS,
    swizzle: SwizzleOption = SwizzleChoice.on,
    builds: Annotated[
        Builds, typer.Option("--builds", help="The main table's kernels, its STAGES 1 to 4, its departures, or all.")
    ] = Builds.main,
    fmt: FormatOption = OutputFormat.table,
    diff: DiffOption = None,
    cubin: CubinOption = None,
) -> None:
    """Count the main loop's instructions in the machine code, per warp and k-step. Needs nvcc, no GPU."""
    typer.echo(
        run_sass(
            lambda archs: compile_and_count(_wanted(builds, swizzle.values), archs),
            describe_gemm,
            arch=arch,
            variants=variants,
            swizzle=swizzle,
            fmt=fmt,
            diff=diff,
            cubin=cubin,
            title="GEMM kernels",
        ),
        nl=False,
    )


def register(app: typer.Typer) -> None:
    """Add the static command to ``gemm-bench``."""
    app.command("sass")(sass)
