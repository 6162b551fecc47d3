"""``gemm-bench``: does what the read path costs survive inside a GEMM?

The bare command checks every kernel, measures and prints the table with its declared comparisons; ``check`` walks every
instantiation. Imports that cost time (torch, scipy) happen inside the commands, so that ``--help`` stays quick.
"""

from __future__ import annotations

import sys

import typer

from stats.errors import BenchError, UserError, run_app

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

_BREAKS = {"unswizzled-reads": 1, "swapped-registers": 2, "last-tile-skipped": 3}


def main() -> None:
    """Entry point of ``gemm-bench``."""
    run_app(app, "gemm-bench")


def _names(option: str, value: str | None, allowed: tuple[str, ...]) -> list[str]:
    """A comma-separated choice; all of them when nothing was given."""
    if value is None:
        return list(allowed)
    names = [part.strip() for part in value.split(",")]
    for name in names:
        if name not in allowed:
            raise UserError(f"{option} {name!r}: choose from {', '.join(allowed)}")
    return list(dict.fromkeys(names))


@app.callback(invoke_without_command=True)
def bench(ctx: typer.Context) -> None:
    """Measure the GEMM on the read paths A1, A2, A2L and A3."""
    if ctx.invoked_subcommand is not None:
        return


@app.command()
def check(
    variants: str = typer.Option(None, "--variants", metavar="A1,A2,A2L,A3", help="Variants; default all."),
    dtype: str = typer.Option(None, "--dtype", metavar="bf16,fp16", help="Element types; default both."),
    shape: list[str] = typer.Option([], "--shape", metavar="MxNxK", help="Instead of the built-in shapes; repeatable."),
    seed: int = typer.Option(None, "--seed", help="Of the random inputs; default fresh."),
    device: int = typer.Option(0, "--device", help="CUDA device, as CUDA numbers them."),
    broken: str = typer.Option(
        None, "--broken", metavar="|".join(_BREAKS), help="Build a kernel with this mistake: the check must fail."
    ),
) -> None:
    """Check every instantiation: to the bit against each other, against float64 and against cuBLAS's own error."""
    import secrets

    from gemm.arguments import parse_shape
    from gemm.check import CHECK_SHAPES
    from gemm.variants import DTYPES, every_kernel
    from micro.device import require_gpu
    from micro.variants import VARIANTS

    kernels = list(every_kernel(_names("--variants", variants, tuple(VARIANTS)), _names("--dtype", dtype, DTYPES)))
    shapes = [parse_shape(text) for item in shape for text in item.split(",")] or list(CHECK_SHAPES)
    flags = [f"-DGEMM_BREAK={_BREAKS[_names('--broken', broken, tuple(_BREAKS))[0]]}"] if broken is not None else []
    require_gpu(device)
    seed = secrets.randbelow(2**31) if seed is None else seed

    from gemm.check import check_all
    from gemm.library import GemmLibrary, build_gemm
    from micro.device import describe_device

    described, _ = describe_device(device)
    arch = int(described.compute_capability.replace(".", ""))
    library = GemmLibrary(build_gemm(kernels, [arch], flags))
    report = check_all(library, kernels, shapes, seed)
    for failure in report.failures:
        sys.stdout.write(f"FAIL {failure}\n")
    ratios = [error / report.cublas_errors[dtype, where] for (dtype, where, _), error in report.relative_errors.items()]
    sys.stdout.write(
        f"{report.checked} checks of {len(kernels)} kernels on {len(shapes)} shapes, seed {seed}: "
        f"{len(report.failures)} failures; largest error relative to cuBLAS's {max(ratios):.4f}\n"
    )
    if report.failures:
        raise BenchError(f"{len(report.failures)} of {report.checked} checks failed")
