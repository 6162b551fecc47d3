"""``micro-bench contention``: what an instruction costs while mma follow each other, and loads and copies each other.

With a GPU it measures; with ``--record`` it computes the table of an earlier run again; with neither it prints the
ceilings. Each form says which it is. Imports that cost time happen inside the command.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from stats.base.errors import need_out
from stats.base.tables import render, told
from stats.cli import options

if TYPE_CHECKING:
    from micro.bench.contention.design import ContentionConfig
    from stats.record.schema import Record


TOOL = "micro-bench contention"


def register(app: typer.Typer) -> None:
    """Add the command to ``micro-bench``."""
    app.command("contention")(contention)


def contention(
    ctx: typer.Context,
    config: options.Config = "contention",
    device: options.Device = 0,
    out: options.Out = None,
    resume: options.Resume = False,
    record: Path = typer.Option(None, "--record", metavar="FILE.jsonl", help="Table of this record; measures nothing."),
    fmt: options.Format = "table",
) -> None:
    """What loads, stores, copies and packing cost while mma follow each other; without a GPU, the ceilings."""
    from micro.cli.measured import device_is_here, named_record

    if record is not None:
        sys.stdout.write(measured_text(named_record(ctx, record, "fmt"), fmt))
        return
    need_out(resume, out)
    from micro.bench.contention.design import ContentionConfig
    from stats.base.config import load_config

    chosen = load_config(config, ContentionConfig)
    if not device_is_here(ctx, TOOL, device, "fmt"):
        sys.stdout.write(predicted_text(fmt))
        return
    sys.stdout.write(measured_text(run_contention(chosen, device_index=device, out=out, resume=resume), fmt))


def run_contention(config: ContentionConfig, *, device_index: int, out: Path | None, resume: bool = False) -> Record:
    """Measure; raises UserError and BenchError as ``stats.run.trials.run_trials`` and ``make_arms`` do."""
    from micro.bench.contention.cells import make_arms
    from micro.bench.contention.design import REFERENCE
    from stats.run.progress import TerminalProgress
    from stats.run.trials import run_trials

    spec = config.trial_spec(TOOL, REFERENCE, f"{REFERENCE}.twin", preload=["torch"])
    factory = functools.partial(make_arms, config, device_index)
    return run_trials(spec, factory, out=out, resume=resume, progress=TerminalProgress())


def measured_text(record: Record, fmt: Any) -> str:
    """The table of a record; JSON also holds what one instruction costs beside mma."""
    from micro.bench.contention.results import COLUMNS, DATA_COLUMNS, UNITS_LINES, contention_rows, costs_beside_mma
    from micro.bench.read_path.results import heading_lines
    from micro.cli.measured import require_tool
    from stats.analysis.prepare import require_accepted
    from stats.record.freshness import marked, of_record

    require_tool(record, TOOL)
    require_accepted(record)
    lines = heading_lines(record)
    skipped = [f"{row.arm}: not measured, {row.reason}" for row in record.skips]
    extra = {
        "measured": True,
        "heading": lines,
        "units": UNITS_LINES,
        "costs_beside_mma": costs_beside_mma(record),
        "skipped": skipped,
    }
    columns = COLUMNS if fmt in ("table", "md") else DATA_COLUMNS
    body = render(columns, contention_rows(record), fmt, extra=extra)
    if fmt in ("csv", "json"):
        return marked(body, fmt, [of_record(record)])
    below = [*UNITS_LINES, *skipped]
    parts = ["\n".join(told(line, fmt) for line in lines), body, "\n".join(told(line, fmt) for line in below)]
    return marked("\n\n".join(part.rstrip("\n") for part in parts) + "\n", fmt, [of_record(record)])


def predicted_text(fmt: Any) -> str:
    """The ceilings, headed as predicted."""
    from micro.bench.contention.results import PREDICTION_COLUMNS, prediction_rows

    line = (
        "PREDICTED, NOT MEASURED: no CUDA device is visible; ceilings per warp pass, in SM cycles: the load port, and "
        "the tensor cores at the highest published rate"
    )
    body = render(PREDICTION_COLUMNS, prediction_rows(), fmt, extra={"measured": False, "heading": [line]})
    above = told(line, fmt)
    return body if fmt in ("csv", "json") else f"{above}\n\n{body}"
