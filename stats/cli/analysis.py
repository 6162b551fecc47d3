"""``bench-stats compare`` and ``bench-stats plan``: one record or two in, verdicts or a plan out.

The commands only read options, call the analysis and print; nothing is computed here. The trap: a percentage may be
typed with or without its sign, and "0.5" must never become fifty per cent.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import typer

from stats.base.errors import UserError, choice
from stats.cli import options

_LEAST_PERCENT = 1e-6  # of a launch of 1 ms it is 10 ps
METRICS = ("time", "cycles", "both")


def _percent(option: str, text: str | None) -> float | None:
    """The number of per cent in "0.5%" or "0.5"; None stays None."""
    if text is None:
        return None
    try:
        value = float(text.strip().removesuffix("%"))
    except ValueError:
        raise UserError(f"{option}: {text!r} is not a percentage; write it like 0.5%") from None
    if not math.isfinite(value) or not 0 < value < 1000:
        raise UserError(f"{option}: is {text}; give a percentage above 0")
    if value < _LEAST_PERCENT:
        raise UserError(f"{option}: is {text}; no run resolves that, give {_LEAST_PERCENT:g} or more")
    return value


def _fraction(option: str, value: float, low: float, high: float) -> float:
    if not low <= value <= high:
        raise UserError(f"{option}: is {value:g}; give a number from {low:g} to {high:g}")
    return value


def compare(
    records: list[Path] = typer.Argument(..., metavar="RECORD...", help="One record, or an old and a new one."),
    a: str = typer.Option(None, "--a", metavar="ARM", help="Only this arm, against --b or the reference."),
    b: str = typer.Option(None, "--b", metavar="ARM", help="The arm that --a is compared with."),
    margin: str = typer.Option(None, "--margin", metavar="0.5%", help="Equivalence margin; default: the record's."),
    metric: str = typer.Option("both", "--metric", metavar="|".join(METRICS), help="What to compare."),
    alpha: float = typer.Option(0.05, "--alpha", help="Level of the tests, from 0.0001 to 0.2."),
    same_source: bool = typer.Option(False, "--same-source", help="Refuse two records of different sources or flags."),
    fail_on: str = typer.Option(
        "regression,cannot-tell",
        "--fail-on",
        metavar="KINDS",
        help="What makes the exit status non-zero: regression (first arm or new run slower, not equivalent), material "
        "(slower beyond the margin), different (either way), cannot-tell (status 2); never.",
    ),
    fmt: options.Format = "table",
) -> None:
    """Compare the arms of one record, or each arm between two records of different builds.

    Exit status 0: nothing worse; 1: a regression is claimed; 2: cannot tell, or bad input.
    """
    which = choice("--metric", metric, METRICS)
    margin_percent = _percent("--margin", margin)
    _fraction("--alpha", alpha, 0.0001, 0.2)
    if len(records) > 2:
        raise UserError(f"RECORD: {len(records)} were given; compare takes one record, or an old and a new one")
    from stats.analysis.compare_text import exit_status, render_analysis
    from stats.record.freshness import marked, of_record
    from stats.record.writer import read_once_each

    read = read_once_each(records)
    if same_source and len(read) == 1:
        raise UserError("--same-source: compares the sources of two records; give an old and a new one")
    if len(read) == 1:
        from stats.analysis.compare import analyse

        result = analyse(read[0], a=a, b=b, metric=which, margin_percent=margin_percent, alpha=alpha)
        if result.unlike_launches:
            raise UserError(result.unlike_launches)
    else:
        from stats.analysis.two_runs import compare_runs

        result = compare_runs(
            *read, a=a, b=b, metric=which, margin_percent=margin_percent, alpha=alpha, same_source=same_source
        )
    status = exit_status(result, [kind.strip() for kind in fail_on.split(",")])
    new = read[-1]  # an old run is of older sources by its nature
    sys.stdout.write(marked(render_analysis(result, fmt, status), fmt, [of_record(new)]))
    sys.stdout.flush()
    raise typer.Exit(status[0])


def plan(
    ctx: typer.Context,
    record: Path = typer.Argument(..., metavar="RECORD", help="A pilot: a record of two or more processes."),
    half_width: str = typer.Option(None, "--half-width", metavar="0.1%", help="Wanted half-width of the interval."),
    effect: str = typer.Option(None, "--effect", metavar="0.5%", help="Effect to be found with --power."),
    power: float = typer.Option(0.8, "--power", help="Wanted chance of the verdict DIFFERENT, from 0.1 to 0.99."),
    a: str = typer.Option(None, "--a", metavar="ARM", help="Plan for this arm, against --b or the reference."),
    b: str = typer.Option(None, "--b", metavar="ARM", help="The arm that --a is compared with."),
    metric: str = typer.Option("cycles", "--metric", metavar="time|cycles", help="What to plan for."),
    alpha: float = typer.Option(0.05, "--alpha", help="Level of the tests, from 0.0001 to 0.2."),
    fmt: options.Format = "table",
) -> None:
    """Say how many processes and blocks a half-width or an effect needs, and the GPU time.

    Exit status 0: there is a plan; 2: out of reach, or bad input.
    """
    which = choice("--metric", metric, ("time", "cycles"))
    wanted, size = _percent("--half-width", half_width), _percent("--effect", effect)
    _fraction("--power", power, 0.1, 0.99)
    _fraction("--alpha", alpha, 0.0001, 0.2)
    if (wanted is None) == (size is None):
        raise UserError("plan: give either --half-width or --effect, one of the two")
    if wanted is not None:
        options.refuse_beside(ctx, "--half-width", "asks for no power", *(set(options.typed(ctx)) - {"power"}))
    from stats.analysis.plan import plan as make_plan
    from stats.analysis.plan_text import render_plan
    from stats.record.freshness import marked, of_record
    from stats.record.reader import read_record

    pilot = read_record(record)
    found = make_plan(
        pilot,
        half_width_percent=wanted,
        effect_percent=size,
        power=power,
        a=a,
        b=b,
        metric=which,
        alpha=alpha,
    )
    sys.stdout.write(marked(render_plan(found, fmt), fmt, [of_record(pilot)]))
    sys.stdout.flush()
    raise typer.Exit(0 if found.options else 2)


def repeats(
    records: list[Path] = typer.Argument(
        ..., metavar="RECORD...", help="Runs that hold both arms; others are passed over."
    ),
    a: str = typer.Option(..., "--a", metavar="ARM", help="The arm that is compared."),
    b: str = typer.Option(..., "--b", metavar="ARM", help="The arm it is compared with."),
    fmt: options.Format = "table",
) -> None:
    """Say how far recorded runs of one pair lie from each other."""
    from stats.analysis.repeats import COLUMNS, repeat_rows
    from stats.base.tables import render
    from stats.record.freshness import marked, of_record
    from stats.record.writer import read_once_each

    read = read_once_each(records)
    text = render(COLUMNS, repeat_rows(read, a, b), fmt)
    sys.stdout.write(marked(text, fmt, map(of_record, read)))


def register(app: typer.Typer) -> None:
    """Add the commands of this module to ``bench-stats``."""
    app.command("compare")(compare)
    app.command("plan")(plan)
    app.command("repeats")(repeats)
