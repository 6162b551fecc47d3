"""``micro-bench``: what does the read path cost, by itself and under the mma?

The bare command runs the micro-benchmark; its subcommands look at the same kernels in other ways. Imports that cost
time (torch, scipy, matplotlib) happen inside the commands, so that ``--help`` stays quick.
"""

from __future__ import annotations

import importlib
import sys
import threading
from typing import Any

import typer

from micro.cli import contention as cli_contention
from micro.cli import counters as cli_counters
from micro.cli import doctor as cli_doctor
from micro.cli import instructions as cli_instructions
from micro.cli import static as cli_static
from micro.model.variants import ALL_VARIANTS, parse_variants
from stats.base.errors import choice, need_out, run_app
from stats.cli import options

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
for part in (cli_static, cli_instructions, cli_contention, cli_counters, cli_doctor):
    part.register(app)


def main() -> None:
    """Entry point of ``micro-bench``."""
    run_app(app, "micro-bench")


@app.callback(invoke_without_command=True)
def bench(
    ctx: typer.Context,
    do_mma: str = typer.Option(
        None, "--do-mma", metavar="0|1|both", help="0: load only. 1: load and mma. both: and mma alone."
    ),
    variants: str = typer.Option(None, "--variants", metavar=ALL_VARIANTS, help="Variants, in the order of the table."),
    swizzle: str = typer.Option(None, "--swizzle", metavar="on|off|both", help="Layout of the tiles in shared memory."),
    blocks_per_sm: int = typer.Option(None, "--blocks-per-sm", metavar="1|2", help="Resident blocks of 8 warps."),
    launches: options.Launches = None,
    processes: options.Processes = None,
    device: options.Device = 0,
    clocks: options.Clocks = None,
    config: options.Config = "micro",
    out: options.Out = None,
    resume: options.Resume = False,
    fmt: options.Format = "table",
    version: options.Version = False,
) -> None:
    """Measure the shared-memory read path of tensor-core fragments; without a GPU, predict it."""
    if ctx.invoked_subcommand is not None:
        options.refuse_before_subcommand(ctx)
        return
    need_out(resume, out)
    overrides: dict[str, Any] = {
        "do_mma": choice("--do-mma", do_mma, ("0", "1", "both")),
        "swizzle": choice("--swizzle", swizzle, ("on", "off", "both")),
        "clocks": clocks,
        "blocks_per_sm": blocks_per_sm,
        "launches": launches,
        "processes": processes,
    }
    if variants is not None:
        overrides["variants"] = parse_variants(variants)
    from micro.bench.read_path.config import MicroConfig
    from micro.cli.measured import device_is_here
    from stats.base.config import load_config, with_overrides

    chosen = with_overrides(load_config(config, MicroConfig), {k: v for k, v in overrides.items() if v is not None})
    shapes = {
        "do_mma": do_mma == "both",  # it asks for all there is
        "blocks_per_sm": fmt in ("table", "md"),  # of the recorded run beneath
    }
    told = [name for name, does in shapes.items() if does]
    if not device_is_here(ctx, "micro-bench", device, "variants", "swizzle", "config", "fmt", *told):
        sys.stdout.write(_predicted(chosen, fmt))
        return
    from micro.bench.read_path.run import run_micro
    from stats.run.progress import TerminalProgress

    # The table needs scipy, whose import takes as long as many cells: it comes while the fresh process measures.
    threading.Thread(target=importlib.import_module, args=("scipy.stats",), daemon=True).start()
    record = run_micro(chosen, device_index=device, out=out, resume=resume, progress=TerminalProgress())
    sys.stdout.write(_measured(record, fmt))


def _with_heading(lines: list[str], fmt: Any, body: str, after: list[str]) -> str:
    from stats.base.tables import told

    lines, after = ([told(line, fmt) for line in part] for part in (lines, after))
    if fmt == "table":  # whose columns say what they are
        return "\n".join(lines) + "\n\n" + body
    if fmt == "md":
        return "\n".join(f"{line}  " for line in lines) + "\n\n" + body + "\n" + "".join(line + "\n" for line in after)
    return body


def _measured(record: Any, fmt: Any) -> str:
    from micro.bench.read_path.results import COLUMNS, DATA_COLUMNS, UNITS_LINES, heading_lines, measured_rows
    from stats.analysis.prepare import require_accepted
    from stats.base.tables import render
    from stats.record.freshness import marked, of_record

    require_accepted(record)
    lines = heading_lines(record)
    columns = COLUMNS if fmt in ("table", "md") else DATA_COLUMNS
    body = render(columns, measured_rows(record), fmt, extra={"measured": True, "heading": lines})
    return marked(_with_heading(lines, fmt, body, UNITS_LINES), fmt, [of_record(record)])


def _predicted(config: Any, fmt: Any) -> str:
    from micro.bench.read_path.results import PREDICTION_COLUMNS, prediction_rows
    from micro.bench.read_path.run import newest_record
    from stats.base.config import results_folders
    from stats.base.tables import render

    lines = ["PREDICTED, NOT MEASURED: no CUDA device is visible; computed from the addresses alone"]
    rows = prediction_rows(list(config.variants), config.swizzles)
    record = newest_record(results_folders(), config.blocks_per_sm)
    text = _with_heading(
        lines, fmt, render(PREDICTION_COLUMNS, rows, fmt, extra={"measured": False, "heading": lines}), []
    )
    if record is None or fmt not in ("table", "md"):
        return text
    return f"{text}\nNewest recorded run: {record.path}\n{_measured(record, fmt)}"
