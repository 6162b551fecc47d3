"""``gemm-bench``: does what the read path costs survive inside a GEMM?

The bare command checks every kernel, measures and prints the table with its declared comparisons; ``check`` walks every
instantiation. Imports that cost time (torch, scipy) happen inside the commands, so that ``--help`` stays quick.
"""

from __future__ import annotations

import sys
from typing import Any

import typer

from gemm.cli import counters as cli_counters
from gemm.cli import explain as cli_explain
from gemm.cli.campaigns import aa, inject
from gemm.cli.static import sass
from gemm.cli.tools import tools
from micro.model.variants import ALL_VARIANTS, VARIANTS
from stats.base.errors import BenchError, UserError, choice, need_out, run_app
from stats.cli import options

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
app.command()(aa)
app.command()(inject)
app.command()(sass)
app.command()(tools)
cli_counters.register(app)
cli_explain.register(app)

_BREAKS = {"unswizzled-reads": 1, "swapped-registers": 2, "last-tile-skipped": 3}


def main() -> None:
    """Entry point of ``gemm-bench``."""
    run_app(app, "gemm-bench")


def _names(option: str, value: str | None, allowed: tuple[str, ...]) -> list[str] | None:
    """A comma-separated choice; None when nothing was given."""
    if value is None:
        return None
    names = [part.strip() for part in value.split(",")]
    return list(dict.fromkeys(choice(option, name, allowed) for name in names))


@app.callback(invoke_without_command=True)
def bench(
    ctx: typer.Context,
    variants: str = typer.Option(None, "--variants", metavar=ALL_VARIANTS, help="Variants, in the order of the table."),
    shape: list[str] = typer.Option(
        [], "--shape", metavar="MxNxK", help="Problem size; repeatable, one record and one table each."
    ),
    dtype: str = typer.Option(None, "--dtype", metavar="bf16,fp16", help="Element types."),
    stages: str = typer.Option(None, "--stages", metavar="1,2,3,4", help="Tiles in the shared-memory ring."),
    swizzle: str = typer.Option(None, "--swizzle", metavar="on|off|both", help="Layout of the tiles in shared memory."),
    load_mode: str = typer.Option(None, "--load-mode", metavar="cp_async,ld_global", help="Global to shared memory."),
    processes: options.Processes = None,
    blocks: int = typer.Option(None, "--blocks", help="Blocks per process; even."),
    launches: options.Launches = None,
    l2: str = typer.Option(None, "--l2", metavar="hot|flushed", help="State of L2 before each launch."),
    seed: int = typer.Option(None, "--seed", help="Of the order of arms and of the inputs."),
    clocks: options.Clocks = None,
    device: options.Device = 0,
    config: options.Config = "ladder-a",
    out: options.Out = None,
    resume: options.Resume = False,
    fmt: options.Format = "table",
    version: options.Version = False,
) -> None:
    """Check, then measure, the GEMM on every read path of the ladder (bare: the config ladder-a)."""
    if ctx.invoked_subcommand is not None:
        options.refuse_before_subcommand(ctx)
        return
    need_out(resume, out)
    from gemm.kernel.variants import DTYPES
    from gemm.ladder.config import GemmConfig, with_changes
    from micro.cli.measured import device_is_here
    from stats.base.config import load_config

    counts = _names("--stages", stages, ("1", "2", "3", "4"))
    changes: dict[str, Any] = {
        "processes": processes,
        "blocks": blocks,
        "launches": launches,
        "seed": seed,
        "l2_mode": l2,
        "clocks": clocks,
        "swizzle": swizzle,
        "shapes": [text for item in shape for text in item.split(",")] or None,
        "variants": _names("--variants", variants, tuple(VARIANTS)),
        "dtypes": _names("--dtype", dtype, DTYPES),
        "stages": counts and [int(count) for count in counts],
        "load_modes": _names("--load-mode", load_mode, ("cp_async", "ld_global")),
    }
    chosen = with_changes(load_config(config, GemmConfig), {k: v for k, v in changes.items() if v is not None})
    shapes = ("variants", "dtype", "stages", "swizzle", "load_mode", "config", "fmt")
    if not device_is_here(ctx, "gemm-bench", device, *shapes):
        sys.stdout.write(_compiled(chosen, fmt))
        return

    from gemm.kernel.arguments import parse_shape
    from gemm.ladder.run import record_path, run_gemm
    from stats.analysis.prepare import require_accepted
    from stats.run.progress import TerminalProgress

    for text in chosen.shapes:
        record = run_gemm(
            chosen,
            parse_shape(text),
            device_index=device,
            out=record_path(out, text, chosen.shapes),
            resume=resume,
            progress=TerminalProgress(),
        )
        require_accepted(record)
        sys.stdout.write(_report(record, fmt))
        sys.stdout.flush()


def _compiled(config: Any, fmt: Any) -> str:
    """What can be told without a GPU: the kernels as compiled for sm_80 and sm_90."""
    from gemm.kernel.compiled import compiled_kernels
    from micro.code.tables import sass_text
    from stats.base.tables import told

    try:
        kernels = compiled_kernels(config.kernels, [80, 90])
    except UserError as error:
        raise UserError(f"measuring needs a CUDA device, and none is visible; compiling instead: {error}") from None
    text = sass_text(
        kernels, variants=config.variants, swizzles=(True, False), fmt=fmt, diff=None, title="GEMM kernels as compiled"
    )
    heading = "COMPILED, NOT MEASURED: no CUDA device is visible; times, TFLOPS and the check need one"
    return f"{told(heading, fmt)}\n\n{text}" if fmt in ("table", "md") else text


def _report(record: Any, fmt: Any) -> str:
    """Heading, table of arms, declared comparisons, notes; CSV and JSON carry the arms and, in JSON, all the rest."""
    from gemm.ladder.results import (
        ARM_COLUMNS,
        COMPARISON_COLUMNS,
        arm_rows,
        comparison_rows,
        heading_lines,
        note_lines,
    )
    from stats.analysis.compare import analyse
    from stats.base.tables import render, told

    analysis = analyse(record)
    heading, notes = heading_lines(record), note_lines(record, analysis)
    compared = comparison_rows(record, analysis)
    extra = {"heading": heading, "comparisons": compared, "notes": notes}
    arms = render(ARM_COLUMNS, arm_rows(record), fmt, extra=extra)
    if fmt not in ("table", "md"):
        return arms
    end = "  \n" if fmt == "md" else "\n"
    above = "".join(told(line, fmt) + end for line in heading)
    below = "".join(told(line, fmt) + end for line in notes)
    comparisons = render(COMPARISON_COLUMNS, compared, fmt)
    return f"{above}\n{arms}\n{comparisons}\n{below}\n"


@app.command()
def check(
    variants: str = typer.Option(None, "--variants", metavar=ALL_VARIANTS, help="Variants; default all."),
    dtype: str = typer.Option(None, "--dtype", metavar="bf16,fp16", help="Element types; default both."),
    shape: list[str] = typer.Option([], "--shape", metavar="MxNxK", help="Instead of the built-in shapes; repeatable."),
    seed: int = typer.Option(None, "--seed", min=0, max=2**63 - 1, help="Of the random inputs; default fresh."),
    device: options.Device = 0,
    broken: str = typer.Option(
        None, "--broken", metavar="|".join(_BREAKS), help="Build a kernel with this mistake: the check must fail."
    ),
) -> None:
    """Check every instantiation: to the bit against each other, against float64 and against cuBLAS's own error."""
    import secrets

    from gemm.cli.campaigns import need_gpu
    from gemm.kernel.arguments import parse_shape
    from gemm.kernel.variants import DTYPES, every_kernel
    from gemm.ladder.check import CHECK_SHAPES

    chosen_variants = _names("--variants", variants, tuple(VARIANTS)) or tuple(VARIANTS)
    kernels = list(every_kernel(chosen_variants, _names("--dtype", dtype, DTYPES) or DTYPES))
    shapes = [parse_shape(text) for item in shape for text in item.split(",")] or list(CHECK_SHAPES)
    flags = [f"-DGEMM_BREAK={_BREAKS[choice('--broken', broken, _BREAKS)]}"] if broken is not None else []
    need_gpu("checking", device)
    seed = secrets.randbelow(2**31) if seed is None else seed

    from gemm.kernel.library import GemmLibrary, build_gemm
    from gemm.ladder.check import check_all
    from micro.gpu.device import describe_device
    from stats.base.tables import fitted

    described, _ = describe_device(device)
    arch = described.arch
    library = GemmLibrary(build_gemm(kernels, [arch], flags))
    report = check_all(library, kernels, shapes, seed)
    for failure in report.failures:
        sys.stdout.write(fitted(f"FAIL {failure}") + "\n")
    ratios = [error / report.cublas_errors[dtype, where] for (dtype, where, _), error in report.relative_errors.items()]
    said = (
        f"{report.checked} checks of {len(kernels)} kernels on {len(shapes)} shapes, seed {seed}: "
        f"{len(report.failures)} failures; largest error relative to cuBLAS's {max(ratios):.4f}"
    )
    sys.stdout.write(fitted(said) + "\n")
    if report.failures:
        raise BenchError(f"{len(report.failures)} of {report.checked} checks failed")
