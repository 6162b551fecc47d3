"""``gemm-bench sass``: what can be told about the GEMM kernels without a GPU?

The command of ``micro-bench sass`` over other kernels: those of a config, compiled for each architecture. The trap:
options and table are shared, so what one command shows of a kernel the other must be able to show as well.
"""

from __future__ import annotations

import typer

from micro.cli.static import (
    ArchOption,
    CubinOption,
    DiffOption,
    SwizzleChoice,
    SwizzleOption,
    VariantsOption,
    run_sass,
)
from micro.model.variants import ALL_VARIANTS
from stats.cli import options


def sass(
    ctx: typer.Context,
    arch: ArchOption = None,
    variants: VariantsOption = ALL_VARIANTS,
    swizzle: SwizzleOption = SwizzleChoice.both,
    fmt: options.Format = "table",
    diff: DiffOption = None,
    cubin: CubinOption = None,
    config: options.Config = "ladder-a",
) -> None:
    """Count the main loop's instructions in the machine code, per warp and k-step. Needs nvcc, no GPU."""
    if cubin is not None:
        options.refuse_beside(ctx, "--cubin", "is compiled already", "arch", "variants", "swizzle", "fmt", "diff")
    from gemm.kernel.compiled import compiled_kernels, describe_gemm
    from gemm.ladder.config import GemmConfig
    from stats.base.config import load_config

    kernels = load_config(config, GemmConfig).kernels
    text = run_sass(
        lambda archs: compiled_kernels(kernels, archs),
        describe_gemm,
        arch=arch,
        variants=variants,
        swizzle=swizzle,
        fmt=fmt,
        diff=diff,
        cubin=cubin,
        title="GEMM kernels",
    )
    typer.echo(text, nl=False)
