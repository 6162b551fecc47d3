"""``micro-bench sass`` and ``micro-bench banks``: what can be proved about the kernels without a GPU.

The commands hold no knowledge of their own: sass_report counts, banks models, pictures draws. ``gemm-bench sass`` is
the same command over other kernels, so the options, the table and the diff live here once. The trap: help must be
instant, so whatever is heavy is imported inside a command.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from micro.model.variants import ALL_VARIANTS, VARIANTS, parse_variants
from stats.base.errors import UserError
from stats.base.tables import Format
from stats.cli import options

if TYPE_CHECKING:
    from micro.code.counts import Kernel, KernelSpec


DEFAULT_ARCHS = (80, 86, 89, 90, 100, 120)
WORKS = ("load_only", "load_mma", "mma_only")


class SwizzleChoice(str, Enum):
    """Which builds or models are shown."""

    on = "on"
    off = "off"
    both = "both"

    @property
    def values(self) -> tuple[bool, ...]:
        """The swizzle states it stands for."""
        return {"on": (True,), "off": (False,), "both": (True, False)}[self.value]


ArchOption = Annotated[
    str | None,
    typer.Option("--arch", help="Architectures, as 80,90, or all that nvcc knows. [default: 80,86,89,90,100,120]"),
]
VariantsOption = Annotated[str, typer.Option("--variants", help="Variants, in the order to show them.")]
SwizzleOption = Annotated[SwizzleChoice, typer.Option("--swizzle", help="With the swizzle, without it, or both.")]
DiffOption = Annotated[
    tuple[str, str] | None, typer.Option("--diff", metavar="FROM TO", help="The difference between two variants.")
]
CubinOption = Annotated[
    Path | None, typer.Option("--cubin", metavar="FILE", help="Read this cubin instead of compiling one.")
]


def arch_numbers(text: str) -> list[int]:
    """``"80,sm_90"`` as numbers. Raises UserError for what is none."""
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if not re.fullmatch(r"(sm_)?[0-9]{2,3}", part):
            raise UserError(f"--arch {part!r}: not an architecture; write 80 or 80,90")
    return [int(part.removeprefix("sm_")) for part in parts]


def parse_archs(text: str | None) -> list[int]:
    """``"80,90"``, ``"all"`` or None (the usual ones that this nvcc knows) as numbers. Raises UserError."""
    from micro.gpu.toolchain import MINIMUM_ARCH, find_toolkit, require_archs

    toolkit = find_toolkit()
    known = [arch for arch in toolkit.architectures if arch >= MINIMUM_ARCH]
    if text is None:
        return [arch for arch in DEFAULT_ARCHS if arch in known]
    if text.strip() == "all":
        return known
    return require_archs(toolkit, list(dict.fromkeys(arch_numbers(text))))


def describe_micro(mangled: str) -> KernelSpec | None:
    """The spec of an instance of ``micro_kernel``; None for any other function."""
    from micro.code.counts import KernelSpec, LoopCounts
    from micro.code.cubin import parse_instance
    from micro.model.layout import layout

    instance = parse_instance(mangled, "micro_kernel")
    if instance is None:
        return None
    mode, b_layout, swizzle, work = instance.arguments
    variant = next(v.name for v in VARIANTS.values() if (v.read_mode, v.b_layout) == (mode, b_layout))
    sizes = layout().constants

    def ring_bytes(loop: LoopCounts) -> int:
        # The loop is unrolled over the ring of stages, so its k-steps tell how many stages there are.
        return loop.ksteps // sizes.k_steps * sizes.stage_bytes

    name = WORKS[int(work)]
    return KernelSpec(
        labels={"variant": variant, "swizzle": "on" if swizzle else "off", "work": name},
        loads=name != "mma_only",
        mma=name != "load_only",
        threads=32 * sizes.warps,
        dynamic_shared_bytes=ring_bytes,
    )


def _micro_kernels(archs: list[int]) -> list[Kernel]:
    from micro.code.counts import analyse_cubin, in_parallel
    from micro.gpu.build import CUDA_DIR, compile_cubin

    return in_parallel(lambda arch: analyse_cubin(compile_cubin(CUDA_DIR / "micro.cu", arch), describe_micro), archs)


def run_sass(
    compiled: Callable[[list[int]], list[Kernel]],
    describe: Callable[[str], KernelSpec | None],
    *,
    arch: str | None,
    variants: str,
    swizzle: SwizzleChoice,
    fmt: Format,
    diff: tuple[str, str] | None,
    cubin: Path | None,
    title: str,
) -> str:
    """The text of a ``sass`` command: compile for the architectures (or read one cubin), count, write."""
    from micro.code.counts import analyse_cubin
    from micro.code.tables import sass_text

    if diff is not None and variants != ALL_VARIANTS:
        raise UserError(f"--variants {variants}: --diff names the two that it compares; leave one of them out")
    names = parse_variants(",".join(diff) if diff is not None else variants)
    if cubin is not None and arch is not None:
        raise UserError("--cubin and --arch: a cubin has its own architecture; give one of them")
    kernels = analyse_cubin(cubin, describe) if cubin is not None else compiled(parse_archs(arch))
    return sass_text(kernels, variants=names, swizzles=swizzle.values, fmt=fmt, diff=diff, title=title)


def sass(
    arch: ArchOption = None,
    variants: VariantsOption = ALL_VARIANTS,
    swizzle: SwizzleOption = SwizzleChoice.on,
    fmt: options.Format = "table",
    diff: DiffOption = None,
    cubin: CubinOption = None,
) -> None:
    """Count the main loop's instructions in the machine code, per warp and k-step. Needs nvcc, no GPU."""
    typer.echo(
        run_sass(
            _micro_kernels,
            describe_micro,
            arch=arch,
            variants=variants,
            swizzle=swizzle,
            fmt=fmt,
            diff=diff,
            cubin=cubin,
            title="micro kernels",
        ),
        nl=False,
    )


def banks(
    variants: VariantsOption = ALL_VARIANTS,
    swizzle: SwizzleOption = SwizzleChoice.both,
    fmt: options.Format = "table",
    each: Annotated[bool, typer.Option("--instructions", help="One row per load instruction.")] = False,
    figures: Annotated[
        Path | None, options.out_folder("--figures", "DIR", "Also draw the pictures into this folder.")
    ] = None,
) -> None:
    """Predict wavefronts and bank conflicts from the addresses alone. Needs a C++ compiler, no nvcc and no GPU."""
    from micro.code.tables import banks_text

    names = parse_variants(variants)
    text = banks_text(names, swizzle.values, fmt, each=each)
    drawn = []
    if figures is not None:
        from micro.pictures.draw import draw_all

        drawn = draw_all(figures, names, swizzle.values)
    # A command that fails has printed nothing, so the table comes last.
    typer.echo(text, nl=False)
    for path in drawn:
        typer.echo(f"wrote {path}", err=True)


def register(app: typer.Typer) -> None:
    """Add the static commands to ``micro-bench``."""
    app.command("sass")(sass)
    app.command("banks")(banks)
