"""``gemm-bench counters``: what the hardware counted, beside what was predicted."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from micro.cli_counters import SETS, choice, count, hand_line, show
from stats.errors import UserError
from stats.tables import FORMATS

if TYPE_CHECKING:
    from micro.counter_config import CountersConfig
    from micro.counters import CounterTool
    from micro.launch_counts import LaunchCounts

__all__ = ["register"]


def predict(arguments: Mapping[str, Any]) -> LaunchCounts:
    """The counts of one launch from what the target wrote about it."""
    from gemm.launch_counts import gemm_launch

    return gemm_launch(*(arguments[key] for key in ("variant", "swizzle", "m", "n", "k")))


def gemm_tool(config: CountersConfig, variants: str | None, swizzle: str, device: int) -> CounterTool:
    """The GEMM of every variant at the config's shape."""
    from gemm.arguments import check_shape
    from micro.counters import CounterTool
    from micro.variants import VARIANTS, parse_variants

    names = parse_variants(variants) if variants is not None else list(VARIANTS)
    shape = config.gemm.m, config.gemm.n, config.gemm.k
    check_shape(*shape)
    arguments = ["--variant", ",".join(names), "--swizzle", swizzle, "--shape", "x".join(map(str, shape))]
    return CounterTool(
        name="gemm-bench",
        module="gemm.counter_target",
        kernel="gemm_kernel",
        predict=predict,
        arguments=[*arguments, "--device", str(device)],
    )


def register(app: typer.Typer) -> None:
    """Add the command to ``gemm-bench``."""

    @app.command()
    def counters(
        variants: str = typer.Option(None, "--variants", metavar="A1,A2,A2L,A3", help="Variants; default all."),
        swizzle: str = typer.Option("both", "--swizzle", metavar="on|off|both", help="Layout of the tiles."),
        config: str = typer.Option(
            "counters", "--config", metavar="FILE|NAME", help="Which metrics: a YAML file, or a name in configs/."
        ),
        metric_set: str = typer.Option(
            "chosen", "--set", metavar="|".join(SETS), help="full: everything that ncu collects, for its GUI."
        ),
        keep: Path = typer.Option(None, "--keep", metavar="DIR", help="Keep the .ncu-rep, ncu's log and the raw CSV."),
        out: Path = typer.Option(None, "--out", metavar="FILE.json", help="Write the record here."),
        from_file: Path = typer.Option(None, "--from", metavar="FILE.json", help="Show a recorded run; needs no GPU."),
        by_hand: bool = typer.Option(False, "--by-hand", help="Print the ncu line for a person, and do nothing."),
        ncu: str = typer.Option(None, "--ncu", metavar="PATH", help="The ncu to use."),
        device: int = typer.Option(0, "--device", help="CUDA device, as CUDA numbers them."),
        fmt: str = typer.Option("table", "--format", metavar="|".join(FORMATS), help="Form of the result on stdout."),
    ) -> None:
        """Count instructions, wavefronts, conflicts and stalls with Nsight Compute, beside what was predicted."""
        choice("--format", fmt, FORMATS)
        choice("--swizzle", swizzle, ("on", "off", "both"))
        full = choice("--set", metric_set, SETS) == "full"
        if full and keep is None:
            raise UserError("--set full: give --keep DIR, since the report is what it is for")
        if from_file is not None:
            from gemm.library import source_hash

            sys.stdout.write(show(from_file, fmt, source_hash()))
            return
        from micro.counter_config import CountersConfig
        from stats.config import load_config

        chosen = load_config(config, CountersConfig)
        tool = gemm_tool(chosen, variants, swizzle, device)
        if by_hand:
            sys.stdout.write(hand_line(tool, chosen))
            return
        sys.stdout.write(count(tool, chosen, ncu=ncu, full=full, keep=keep, out=out, device=device, fmt=fmt))
