"""``micro-bench counters``: what the hardware counted, beside what was predicted.

The command is made here once for both benchmarks: ``add_counters`` takes what differs, the tool that is counted. The
trap: it is asked for late, since ``--help`` must import neither torch nor kernels.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from micro.model.variants import VARIANTS
from stats.base.errors import UserError, choice, run_app, say
from stats.base.tables import Format
from stats.cli import options

if TYPE_CHECKING:
    from micro.counters.config import CountersConfig
    from micro.counters.count import CounterTool


ToolOf: TypeAlias = "Callable[[CountersConfig, str | None, str, int], CounterTool]"

SETS = ("chosen", "full")


def micro_tool(config: CountersConfig, variants: str | None, swizzle: str, device: int) -> CounterTool:
    """The micro kernels: load alone, load and mma, of every variant."""
    from micro.counters.count import CounterTool
    from micro.counters.launch_counts import LaunchCounts, micro_launch
    from micro.model.arm_names import Work
    from micro.model.variants import parse_variants

    names = parse_variants(variants) if variants is not None else list(VARIANTS)

    def predict(arguments: Mapping[str, Any]) -> LaunchCounts:
        sizes = {key: arguments[key] for key in ("blocks", "loops", "stages")}
        return micro_launch(arguments["variant"], arguments["swizzle"], Work(arguments["work"]), **sizes)

    arguments = ["--variant", ",".join(names), "--swizzle", swizzle, "--work", "load,load+mma"]
    arguments += ["--loops", str(config.micro.loops), "--blocks-per-sm", str(config.micro.blocks_per_sm)]
    return CounterTool(
        name="micro-bench",
        module="micro.counters.target",
        kernel="micro_kernel",
        predict=predict,
        arguments=[*arguments, "--device", str(device)],
    )


def count(
    tool: CounterTool,
    config: CountersConfig,
    *,
    ncu: str | None,
    full: bool,
    keep: Path | None,
    out: Path | None,
    device: int,
    fmt: str,
) -> str:
    """Count, write the record to ``out`` and return the report. Raises UserError and BenchError, each one line."""
    from micro.counters.count import run_counters
    from micro.counters.table import render_counters
    from micro.gpu.ncu import Ncu, find_ncu
    from stats.record.writer import check_writable

    if out is not None:
        check_writable(out)
    program = Ncu(find_ncu(ncu))
    record = run_counters(
        tool,
        config,
        program,
        device_index=device,
        keep=keep,
        full=full,
        progress=say,
    )
    if out is not None:
        out.write_text(render_counters(record, "json"), encoding="utf-8")
    return render_counters(record, fmt)  # type: ignore[arg-type]


def add_counters(app: typer.Typer, name: str, tool_of: ToolOf) -> None:
    """Add the command to ``app``.

    ``name`` is the tool's; ``tool_of`` makes it from config, variants, swizzle (on, off or both) and device.
    """

    @app.command()
    def counters(
        ctx: typer.Context,
        variants: str = typer.Option(None, "--variants", metavar=",".join(VARIANTS), help="Variants; default all."),
        swizzle: str = typer.Option("both", "--swizzle", metavar="on|off|both", help="Layout of the tiles."),
        config: options.Config = "counters",
        metric_set: str = typer.Option(
            "chosen", "--set", metavar="|".join(SETS), help="full: everything that ncu collects, for its GUI."
        ),
        keep: Annotated[
            Path | None, options.out_folder("--keep", "DIR", "Keep the .ncu-rep, ncu's log and the raw CSV.")
        ] = None,
        out: Annotated[Path | None, options.out_file("--out", "FILE.json", "Write the record here.")] = None,
        from_file: Path = typer.Option(None, "--from", metavar="FILE.json", help="Show a recorded run; needs no GPU."),
        by_hand: bool = typer.Option(False, "--by-hand", help="Print the ncu line for a person, and do nothing."),
        ncu: str = typer.Option(None, "--ncu", metavar="PATH", help="The ncu to use."),
        device: options.Device = 0,
        fmt: options.Format = "table",
    ) -> None:
        """Count instructions, wavefronts, conflicts and stalls with Nsight Compute, beside what was predicted."""
        if from_file is not None:
            options.refuse_beside(ctx, "--from", "counts nothing", "fmt")
            sys.stdout.write(show(from_file, fmt, name))
            return
        if by_hand:
            options.refuse_beside(ctx, "--by-hand", "only prints a line", "variants", "swizzle", "config", "device")
        choice("--swizzle", swizzle, ("on", "off", "both"))
        full = choice("--set", metric_set, SETS) == "full"
        if full and keep is None:
            raise UserError("--set full: give --keep DIR, since the report is what it is for")
        from micro.counters.config import CountersConfig
        from stats.base.config import load_config

        chosen = load_config(config, CountersConfig)
        tool = tool_of(chosen, variants, swizzle, device)
        if by_hand:
            sys.stdout.write(hand_line(tool, chosen))
            return
        sys.stdout.write(count(tool, chosen, ncu=ncu, full=full, keep=keep, out=out, device=device, fmt=fmt))


def register(app: typer.Typer) -> None:
    """Add the command to ``micro-bench``."""
    add_counters(app, "micro-bench", micro_tool)


def show(path: Path, fmt: Format, tool: str) -> str:
    """A recorded run as a report, marked stale when the kernels have changed since.

    Raises UserError for what is no record of ``tool``'s counters.
    """
    from micro.counters.record import read_counters
    from micro.counters.table import render_counters
    from stats.record.freshness import marked, of_document

    record = read_counters(path)
    if record.tool != tool:
        raise UserError(f"{path}: a record of {record.tool} counters; use {record.tool} counters --from {path}")
    return marked(render_counters(record, fmt), fmt, [of_document(path.stem, record.model_dump())])


def hand_line(tool: CounterTool, config: CountersConfig) -> str:
    """The command line for a person, quoted for a shell."""
    from micro.counters.count import by_hand

    return shlex.join(by_hand(tool, config)) + "\n"


def main() -> None:
    """``python -m micro.cli.counters``: the command by itself."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    register(app)
    run_app(app, "micro-bench counters")


if __name__ == "__main__":
    main()
