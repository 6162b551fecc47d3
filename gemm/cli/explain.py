"""``gemm-bench explain``: why the difference is what it is, and what became of each claim under test.

The bare form prints ceilings, predictions, attribution and readings for the newest records; ``claims`` the twelve
verdicts; ``stream`` measures L2's ceiling and needs a GPU. Everything else runs from records, nvcc and a disassembler;
without these two what records alone give is printed, with a line that says so. Heavy imports happen in the commands.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from micro.cli.static import arch_numbers
from stats.base.errors import UserError, need_out, say
from stats.cli import options

if TYPE_CHECKING:
    from gemm.explain.evidence import Evidence


_app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
_RECORD = typer.Option([], "--record", metavar="FILE|FOLDER", help="Records to explain; repeatable. Default: results/.")


def register(app: typer.Typer) -> None:
    """Add ``explain`` and its forms to ``gemm-bench``."""
    app.add_typer(_app, name="explain")


def _evidence(records: list[Path]) -> Evidence:
    from gemm.explain.evidence import gather
    from stats.base.config import results_folders

    for path in records:
        if not path.exists():
            raise UserError(f"--record {path}: no such file or folder")
    found = gather(records or results_folders()[:1], named=bool(records))
    if records and not found.counters and next(found.records(), None) is None:
        raise UserError(f"--record {records[0]}: holds nothing to explain; give records of micro-bench or gemm-bench")
    return found


def _marked(text: str, fmt: Any, evidence: Evidence) -> str:
    from stats.record.freshness import marked, of_document, of_record

    read = [*map(of_record, evidence.records()), *(of_document(path.stem, data) for path, data in evidence.counters)]
    return marked(text, fmt, read)


def _archs(text: str | None, evidence: Evidence) -> list[int]:
    """The architectures asked for; without any, that of the records, and without records all on file."""
    from gemm.simulator.machine import MACHINES, machine

    if text is None:
        return [machine(evidence.arch).arch] if evidence.arch is not None else sorted(MACHINES)
    archs = dict.fromkeys(arch_numbers(text))
    try:
        return [machine(arch).arch for arch in archs]
    except UserError as error:
        raise UserError(f"--arch: {error}") from None


def _basis(arch: int, evidence: Evidence) -> str:
    from gemm.explain.figures import machine_for

    machine = machine_for(arch, evidence)
    title = f"sm_{arch}"
    if evidence.arch == arch:
        title += f": measured on {evidence.device}; predictions use its micro figures"
    else:
        title += ": PREDICTED, NOT MEASURED"
    return f"{title}; mma interval {machine.mma_interval_cycles:.2f} ({machine.sources['mma_interval_cycles']})"


_TITLES = {
    "ceilings": "ceilings, SM cycles per warp k-step",
    "predictions": "predictions, SM cycles per warp k-step",
    "attribution": "attribution of the declared comparisons",
    "reading": "how to read each arm and pair",
}


def _sections(
    arch: int, evidence: Evidence, machine_code: bool, step: Callable[[str], None]
) -> dict[str, tuple[list[Any], list[dict[str, Any]]]]:
    """Columns and rows of each section; ``step`` is told, before each, which one comes."""
    from gemm.explain import attribution, guide, order, predict, readings, roofline

    if not machine_code:
        rows = attribution.attribution_rows(arch, evidence, simulates=False)
        read = readings.readings(arch, evidence, machine_code=False)
        return {"attribution": (attribution.COLUMNS, rows), "reading": (guide.COLUMNS, guide.guide_rows(read))}
    made: dict[str, tuple[list[Any], Callable[[], list[dict[str, Any]]]]] = {
        "ceilings": (roofline.COLUMNS, lambda: roofline.roofline_rows(arch, evidence)),
        "predictions": (predict.COLUMNS, lambda: order.with_order(predict.prediction_rows(arch, evidence))),
        "attribution": (attribution.COLUMNS, lambda: attribution.attribution_rows(arch, evidence)),
        "reading": (guide.COLUMNS, lambda: guide.guide_rows(readings.readings(arch, evidence))),
    }
    found = {}
    for name, (columns, rows_of) in made.items():
        step(f"sm_{arch}: {name}")
        found[name] = columns, rows_of()
    return found


@_app.callback(invoke_without_command=True)
def explain(
    ctx: typer.Context,
    record: list[Path] = _RECORD,
    arch: str = typer.Option(None, "--arch", metavar="80,90", help="Default: that of the records, else all on file."),
    fmt: options.Format = "table",
) -> None:
    """Ceilings, predictions with their error, attribution and a reading for each arm; no GPU needed."""
    if ctx.invoked_subcommand is not None:
        options.refuse_before_subcommand(ctx)
        return
    from gemm.simulator.kernels import without_machine_code
    from stats.base.tables import render, to_json, told
    from stats.run.progress import announced_steps

    evidence = _evidence(record)
    archs = _archs(arch, evidence)
    if record and evidence.arch not in archs:
        say(f"gemm-bench explain: --record: no effect, since it is of sm_{evidence.arch}")
    trouble = without_machine_code()
    missing = f"no ceilings, predictions or simulated parts: {trouble}" if trouble else None
    with announced_steps(len(_TITLES) * len(archs)) as step:
        found = {one: _sections(one, evidence, trouble is None, step) for one in archs}
    if missing:
        if not any(rows for parts in found.values() for _, rows in parts.values()):
            raise UserError(f"nothing to explain from records alone; {missing}")
        say(f"gemm-bench explain: {missing}")
    sys.stdout.write(_marked("", fmt, evidence))
    if fmt == "json":
        data = {f"sm_{one}": {name: rows for name, (_, rows) in parts.items()} for one, parts in found.items()}
        head = {"device": evidence.device, **({"missing": missing} if missing else {})}
        sys.stdout.write(to_json({**head, **data}) + "\n")
        return
    for one, parts in found.items():
        if fmt in ("table", "md"):
            sys.stdout.write(f"{told(_basis(one, evidence), fmt)}\n\n")
        for name, (columns, rows) in parts.items():
            if not rows:
                continue
            if fmt in ("table", "md"):
                sys.stdout.write(f"{'### ' if fmt == 'md' else ''}{_TITLES[name]}\n\n")
            sys.stdout.write(render(columns, rows, fmt) + "\n")


@_app.command()
def claims(
    record: list[Path] = _RECORD,
    fmt: options.Format = "table",
    out: Annotated[
        Path | None, options.out_file("--out", "FILE.json", "Also write the verdicts here, as data.")
    ] = None,
) -> None:
    """A verdict per claim under test, from records, machine code and addresses; no GPU needed."""
    from gemm.claims.verdicts import COLUMNS, claim_rows, claims_json, claims_on_terminal, judge
    from stats.base.files import refuse_records
    from stats.base.tables import render

    evidence = _evidence(record)
    if out is not None:
        read = [
            *record,
            *(one.path for one in evidence.records() if one.path),
            *(path for path, _ in evidence.counters),
        ]
        refuse_records("--out", out, read)
    results = judge(evidence)
    if out is not None:
        try:
            out.write_text(claims_json(results, evidence), encoding="utf-8")
        except OSError as error:
            raise UserError(f"--out {out}: cannot be written ({error.strerror})") from None
    if fmt == "json":
        text = claims_json(results, evidence)
    elif fmt == "table":
        text = claims_on_terminal(results)
    else:
        text = render(COLUMNS, claim_rows(results), fmt)
    sys.stdout.write(_marked(text, fmt, evidence))


@_app.command()
def fit(record: list[Path] = _RECORD, fmt: options.Format = "table") -> None:
    """Repeat the choices made by fitting, on the contention record and on reads without mma; no GPU, minutes."""
    from gemm.explain.fit import COLUMNS, fit_rows
    from stats.base.tables import render

    evidence = _evidence(record)
    text = render(COLUMNS, fit_rows(evidence, _archs(None, evidence)[0]), fmt)
    sys.stdout.write(_marked(text, fmt, evidence))


@_app.command()
def kernels(record: list[Path] = _RECORD, fmt: options.Format = "table") -> None:
    """Predicted and measured cycles of every GEMM kernel that the records hold; no GPU needed."""
    from gemm.explain.reach import COLUMNS, reach_rows
    from stats.base.tables import render

    evidence = _evidence(record)
    rows = reach_rows(evidence, _archs(None, evidence)[0])
    sys.stdout.write(_marked(render(COLUMNS, rows, fmt, extra={"device": evidence.device}), fmt, evidence))


@_app.command()
def stream(
    device: options.Device = 0,
    config: options.Config = "stream",
    processes: options.Processes = None,
    out: options.Out = None,
    resume: options.Resume = False,
    fmt: options.Format = "table",
) -> None:
    """Measure what L2 gives shared memory in the GEMM's own pattern, a copy's latency and a barrier's cost (GPU)."""
    need_out(resume, out)
    from gemm.explain.readings import STREAM_COLUMNS, stream_rows
    from gemm.explain.stream import StreamConfig, run_stream
    from micro.gpu.device import require_gpu
    from stats.base.config import load_config, with_overrides
    from stats.base.tables import render
    from stats.run.progress import TerminalProgress

    settings = load_config(config, StreamConfig)
    if processes is not None:
        settings = with_overrides(settings, {"processes": processes})
    require_gpu(device)
    record = run_stream(settings, device_index=device, out=out, resume=resume, progress=TerminalProgress())
    sys.stdout.write(render(STREAM_COLUMNS, stream_rows(record), fmt))
