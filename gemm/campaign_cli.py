"""``gemm-bench aa`` and ``gemm-bench inject``: campaigns in which the truth is known, run or read back from records."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer

from stats.errors import BenchError, UserError
from stats.tables import FORMATS

__all__ = ["aa", "inject", "need_gpu"]


def need_gpu(what: str, device: int) -> None:
    """Check device and torch; the UserError says ``what`` needs them."""
    from micro.device import require_gpu

    try:
        require_gpu(device)
    except UserError as error:
        raise UserError(f"{what} needs a GPU: {error}") from None


def _campaign(
    effects: list[float],
    *,
    runs: int,
    processes: int,
    blocks: int,
    seed: int,
    device: int,
    out: Path | None,
    clocks: str,
) -> list[Any]:
    from gemm.campaigns import Campaign, run_campaign
    from stats.progress import TerminalProgress

    if runs < 1:
        raise UserError(f"--runs: {runs} is below 1")
    if clocks not in ("auto", "lock", "monitor"):
        raise UserError(f"--clocks {clocks!r}: choose from auto, lock, monitor")
    need_gpu("a campaign", device)
    records = []
    for run in range(runs):
        design = Campaign(tuple(effects), processes=processes, blocks=blocks, seed=seed + run)
        path = out.with_name(f"{out.stem}-{run}{out.suffix or '.jsonl'}") if out is not None and runs > 1 else out
        records.append(run_campaign(design, device_index=device, out=path, clocks=clocks, progress=TerminalProgress()))
    return records


def _campaign_report(columns: list[Any], rows: list[dict[str, Any]], fmt: str) -> None:
    from stats.tables import render

    if not rows:
        raise BenchError("no pair of this campaign can be judged: too few processes")
    sys.stdout.write(render(columns, rows, fmt))  # type: ignore[arg-type]  # checked by the caller
    outside = [row for row in rows if row["inside"] != "yes"]
    if outside:
        raise BenchError(f"{len(outside)} of {len(rows)} rows lie outside their 99.9 % band")


def aa(
    record: list[Path] = typer.Option([], "--record", help="Report on recorded runs instead; repeatable; no GPU."),
    pairs: int = typer.Option(100, "--pairs", help="Pairs of the same kernel in a run: one verdict each."),
    runs: int = typer.Option(2, "--runs", help="Runs, each with fresh processes."),
    processes: int = typer.Option(8, "--processes", help="Fresh processes of a run."),
    blocks: int = typer.Option(10, "--blocks", help="Blocks per process; even."),
    seed: int = typer.Option(1, "--seed", help="Of the first run."),
    device: int = typer.Option(0, "--device", help="CUDA device, as CUDA numbers them."),
    clocks: str = typer.Option(
        "monitor", "--clocks", metavar="auto|lock|monitor", help="What may be done to the clocks."
    ),
    out: Path = typer.Option(None, "--out", metavar="FILE.jsonl", help="Write the raw cells here, one file a run."),
    fmt: str = typer.Option("table", "--format", metavar="|".join(FORMATS), help="Form of the result on stdout."),
) -> None:
    """A/A campaign: how often is the same code called different from itself?"""
    if fmt not in FORMATS:
        raise UserError(f"--format {fmt!r}: choose from {', '.join(FORMATS)}")
    from gemm.campaign_report import AA_COLUMNS, aa_rows, judge
    from stats.records import read_record

    if record:
        records = [read_record(path) for path in record]
    else:
        records = _campaign(
            [0.0] * pairs,
            runs=runs,
            processes=processes,
            blocks=blocks,
            seed=seed,
            device=device,
            out=out,
            clocks=clocks,
        )
    _campaign_report(AA_COLUMNS, aa_rows(judge(records)), fmt)


def inject(
    record: list[Path] = typer.Option([], "--record", help="Report on recorded runs instead; repeatable; no GPU."),
    effects: str = typer.Option("0.2,0.5,1,2,5", "--effects", metavar="PERCENT,...", help="Known effects."),
    pairs: int = typer.Option(20, "--pairs", help="Pairs of arms for each effect in a run: one verdict each."),
    runs: int = typer.Option(1, "--runs", help="Runs, each with fresh processes."),
    processes: int = typer.Option(8, "--processes", help="Fresh processes of a run."),
    blocks: int = typer.Option(10, "--blocks", help="Blocks per process; even."),
    seed: int = typer.Option(101, "--seed", help="Of the first run."),
    device: int = typer.Option(0, "--device", help="CUDA device, as CUDA numbers them."),
    clocks: str = typer.Option(
        "monitor", "--clocks", metavar="auto|lock|monitor", help="What may be done to the clocks."
    ),
    out: Path = typer.Option(None, "--out", metavar="FILE.jsonl", help="Write the raw cells here, one file a run."),
    fmt: str = typer.Option("table", "--format", metavar="|".join(FORMATS), help="Form of the result on stdout."),
) -> None:
    """Injected effects: is a known number of SM cycles found, at the promised rate, by intervals that cover it?"""
    if fmt not in FORMATS:
        raise UserError(f"--format {fmt!r}: choose from {', '.join(FORMATS)}")
    from gemm.campaign_report import INJECT_COLUMNS, inject_rows, judge
    from stats.records import read_record

    try:
        sizes = [float(part) for part in effects.split(",")]
    except ValueError:
        raise UserError(f"--effects {effects!r}: write percentages separated by commas, for example 0.2,1,5") from None
    if not all(0 < size < 100 for size in sizes):
        raise UserError(f"--effects {effects!r}: each must be above 0 and below 100")
    if record:
        records = [read_record(path) for path in record]
    else:
        records = _campaign(
            [size for size in sizes for _ in range(pairs)],
            runs=runs,
            processes=processes,
            blocks=blocks,
            seed=seed,
            device=device,
            out=out,
            clocks=clocks,
        )
    _campaign_report(INJECT_COLUMNS, inject_rows(judge(records)), fmt)
