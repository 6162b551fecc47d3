"""``micro-bench instructions``: the reference table of every shared-memory load, measured, recomputed or predicted.

With a GPU it measures; with ``--record`` it computes the tables of an earlier run again; with neither it prints what
the bank model predicts. Each form says which it is. Imports that cost time happen inside the command.
"""

from __future__ import annotations

import functools
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stats.base import tables
from stats.base.errors import UserError, need_out
from stats.base.tables import render
from stats.cli import options

if TYPE_CHECKING:
    from micro.bench.instructions.design import InstructionsConfig
    from stats.record.schema import Record


TOOL = "micro-bench instructions"
_FIGURE_SUFFIXES = (".png", ".svg", ".pdf")


def register(app: typer.Typer) -> None:
    """Add the command to ``micro-bench``."""
    app.command("instructions")(instructions)


def instructions(
    ctx: typer.Context,
    config: options.Config = "instructions",
    device: options.Device = 0,
    out: options.Out = None,
    resume: options.Resume = False,
    record: Path = typer.Option(
        None, "--record", metavar="FILE.jsonl", help="Tables of this record; measures nothing."
    ),
    fmt: options.Format = "table",
    figure: Annotated[
        Path | None, options.out_file("--figure", "FILE.png", "Heat maps: warps by instructions in flight.")
    ] = None,
) -> None:
    """Latency and throughput of every shared-memory load by bank conflict; without a GPU, the prediction."""
    if figure is not None and figure.suffix.lower() not in _FIGURE_SUFFIXES:
        raise UserError(f"--figure {figure}: choose a name that ends in {', '.join(_FIGURE_SUFFIXES)}")
    from micro.cli.measured import device_is_here, named_record
    from stats.base.files import refuse_records

    if record is not None:
        if figure is not None:
            refuse_records("--figure", figure, [record])
        _show(named_record(ctx, record, "fmt", "figure"), fmt, figure)
        return
    need_out(resume, out)
    from micro.bench.instructions.design import InstructionsConfig
    from stats.base.config import load_config

    chosen = load_config(config, InstructionsConfig)
    if not device_is_here(ctx, TOOL, device, "config", "fmt"):
        sys.stdout.write(predicted_text(chosen, fmt))
        return
    _show(run_instructions(chosen, device_index=device, out=out, resume=resume), fmt, figure)


def run_instructions(
    config: InstructionsConfig, *, device_index: int, out: Path | None, resume: bool = False
) -> Record:
    """Measure; raises UserError and BenchError as ``stats.run.trials.run_trials`` and ``make_arms`` do."""
    from micro.bench.instructions.cells import make_arms
    from micro.bench.instructions.design import arms_of, reference_arm
    from stats.run.progress import TerminalProgress
    from stats.run.trials import run_trials

    reference = reference_arm(arms_of(config)).name
    spec = config.trial_spec(TOOL, reference, f"{reference}.twin", preload=["torch"])
    factory = functools.partial(make_arms, config, device_index)
    return run_trials(spec, factory, out=out, resume=resume, progress=TerminalProgress())


def _show(found: Record, fmt: str, figure: Path | None) -> None:
    text = measured_text(found, fmt)
    try:
        if figure is not None:
            from micro.bench.instructions.figure import draw_heat_maps
            from micro.bench.instructions.results import points_of

            name = found.header.device.name if found.header.device else "unknown device"
            draw_heat_maps(points_of(found), figure, f"{name}: rate by what is under way ({found.name})")
    except UserError:
        if found.path is None:  # measured and nowhere recorded: what cost GPU time is shown all the same
            sys.stdout.write(text)
        raise
    sys.stdout.write(text)


def measured_text(record: Record, fmt: Any) -> str:
    """The tables of a record. CSV holds the reference table only; JSON holds everything, unrounded."""
    from micro.bench.instructions import published
    from micro.bench.instructions.results import (
        COLUMNS,
        FIT_COLUMNS,
        UNITS_LINE,
        fit_rows,
        fits_of,
        points_of,
        table_rows,
    )
    from micro.bench.read_path.results import heading_lines
    from micro.cli.measured import require_tool
    from stats.record.freshness import marked, of_record

    where = record.path or record.name
    require_tool(record, TOOL)
    points = points_of(record)
    if not points:
        raise UserError(f"{where}: no process is complete; continue it with --out {where} --resume")
    fits = fit_rows(fits_of(points))
    beside = published.published_rows(points, record.header.device)
    lines = [*heading_lines(record), gpu_time_line(record)]
    skipped = skipped_lines(record)
    warnings = [f"{fit['instruction']} {fit['quantity']}: {text}" for fit in fits for text in fit["warnings"]]
    extra = {
        "measured": True,
        "heading": lines,
        "fits": fits,
        "published": beside,
        "grid": _grid(points),
        "skipped": skipped,
        "warnings": warnings,
    }
    main = render(COLUMNS, table_rows(points), fmt, extra=extra)
    if fmt in ("csv", "json"):
        return marked(main, fmt, [of_record(record)])
    told = functools.partial(tables.told, fmt=fmt)
    parts = [
        "\n".join(map(told, lines)),
        main,
        *([UNITS_LINE] if fmt == "md" else []),  # on a terminal the columns say what they are
        told(
            "Cycles against wavefronts: conflict-free + slope x (wavefronts - least), with 95 % intervals; residual: "
            "the worst, in cycles."
        )
        + "\n"
        + told(
            "Unseen are the broadcast and random patterns, which no fit has used: their error says how well the line "
            "predicts."
        ),
        render(FIT_COLUMNS, fits, fmt),
        "Published by others, beside ours:",
        render(published.COLUMNS, beside, fmt),
    ]
    if warnings or skipped:
        parts.append("\n".join(told(line) for line in [*warnings, *skipped]))
    return marked("\n\n".join(part.rstrip("\n") for part in parts) + "\n", fmt, [of_record(record)])


def gpu_time_line(record: Record) -> str:
    """What the table cost: seconds inside timed launches, and from the first cell to the last over all processes."""
    timed_s = sum(cell.time_ns for cell in record.cells) * 1e-9
    starts_s: dict[tuple[int, int], list[float]] = defaultdict(list)
    for cell in record.cells:
        starts_s[cell.process, cell.attempt].append(cell.started_s)
    from_to_s = sum(max(started) - min(started) for started in starts_s.values())
    return f"{len(record.cells)} cells: {timed_s:.1f} s inside timed launches, {from_to_s:.0f} s from first to last"


def skipped_lines(record: Record) -> list[str]:
    """What could not run, an instruction a line rather than an arm a line."""
    counts = Counter((row.arm.partition("/")[0], row.reason) for row in record.skips)
    return [f"{name}: {count} cells not measured, {reason}" for (name, reason), count in counts.items()]


def _grid(points: Any) -> list[dict[str, Any]]:
    return [
        {
            "instruction": point.facts["instruction"],
            "pattern": point.facts["pattern"],
            "warps": point.at[0],
            "in_flight": point.at[1],
            "cycles_per_instruction": point.cycles.mean,
            "low": point.cycles.low,
            "high": point.cycles.high,
        }
        for point in points
    ]


def predicted_text(config: InstructionsConfig, fmt: Any) -> str:
    """What the addresses alone say, headed as predicted."""
    from micro.bench.instructions.design import arms_of
    from micro.bench.instructions.results import PREDICTION_COLUMNS, prediction_rows

    line = "PREDICTED, NOT MEASURED: no CUDA device is visible; from the addresses alone, per warp instruction and SM"
    rows = prediction_rows([arm.static() for arm in arms_of(config)])
    body = render(PREDICTION_COLUMNS, rows, fmt, extra={"measured": False, "heading": [line]})
    above = tables.told(line, fmt)
    return body if fmt in ("csv", "json") else f"{above}\n\n{body}"
