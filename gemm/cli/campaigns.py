"""``gemm-bench aa`` and ``gemm-bench inject``: campaigns in which the truth is known, run or read back from records."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from stats.base.errors import BenchError, UserError
from stats.base.tables import Format
from stats.cli import options

if TYPE_CHECKING:
    from stats.record.schema import Record


def need_gpu(what: str, device: int) -> None:
    """Check device and torch; the UserError says ``what`` needs them."""
    from micro.gpu.device import require_gpu

    try:
        require_gpu(device)
    except UserError as error:
        raise UserError(f"{what} needs a GPU: {error}") from None


_Records: TypeAlias = Annotated[
    list[Path], typer.Option("--record", help="Report on recorded runs instead; repeatable; no GPU.")
]
_Runs: TypeAlias = Annotated[int, typer.Option("--runs", help="Runs, each with fresh processes.")]
_Processes: TypeAlias = Annotated[int, typer.Option("--processes", help="Fresh processes of a run.")]
_Blocks: TypeAlias = Annotated[int, typer.Option("--blocks", help="Blocks per process; even.")]
_Seed: TypeAlias = Annotated[int, typer.Option("--seed", help="Of the first run.")]
_Out: TypeAlias = Annotated[
    Path | None, options.out_file("--out", "FILE.jsonl", "Write the raw cells here, one file a run.")
]


@dataclass(frozen=True)
class _Asked:
    """The options that both campaigns have: where the records come from, or how they are run."""

    recorded: list[Path]
    runs: int
    processes: int
    blocks: int
    seed: int
    device: int
    clocks: str
    out: Path | None

    def records(self, effects: list[float]) -> list[Record]:
        """Read the records, or run a campaign with a pair of arms for each of ``effects`` (per cent)."""
        from stats.record.writer import read_once_each

        return read_once_each(self.recorded) if self.recorded else self._run(effects)

    def _run(self, effects: list[float]) -> list[Record]:
        from gemm.truth.campaigns import Campaign, run_campaign
        from stats.run.progress import TerminalProgress

        if self.runs < 1:
            raise UserError(f"--runs: {self.runs} is below 1")
        need_gpu("a campaign", self.device)
        found = []
        for run in range(self.runs):
            design = Campaign(tuple(effects), processes=self.processes, blocks=self.blocks, seed=self.seed + run)
            path = self.out
            if path is not None and self.runs > 1:
                path = path.with_name(f"{path.stem}-{run}{path.suffix or '.jsonl'}")
            found.append(
                run_campaign(
                    design, device_index=self.device, out=path, clocks=self.clocks, progress=TerminalProgress()
                )
            )
        return found


def _report(columns: list[Any], rows: list[dict[str, Any]], fmt: Format, records: list[Record]) -> None:
    from stats.base.tables import render
    from stats.record.freshness import marked, of_record

    if not rows:
        raise BenchError("no pair of this campaign can be judged: too few processes")
    sys.stdout.write(marked(render(columns, rows, fmt), fmt, map(of_record, records)))
    outside = [row for row in rows if row["inside"] != "yes"]
    if outside:
        raise BenchError(f"{len(outside)} of {len(rows)} rows lie outside their 99.9 % band")


def _sizes(effects: str) -> list[float]:
    try:
        sizes = [float(part) for part in effects.split(",")]
    except ValueError:
        raise UserError(f"--effects {effects!r}: write percentages separated by commas, for example 0.2,1,5") from None
    if not all(0 < size < 100 for size in sizes):
        raise UserError(f"--effects {effects!r}: each must be above 0 and below 100")
    return sizes


def aa(
    ctx: typer.Context,
    record: _Records = [],  # noqa: B006  # typer's default; never changed
    pairs: Annotated[int, typer.Option("--pairs", help="Pairs of the same kernel in a run: one verdict each.")] = 100,
    runs: _Runs = 2,
    processes: _Processes = 8,
    blocks: _Blocks = 10,
    seed: _Seed = 1,
    device: options.Device = 0,
    clocks: options.Clocks = "monitor",
    out: _Out = None,
    fmt: options.Format = "table",
) -> None:
    """A/A campaign: how often is the same code called different from itself?"""
    from gemm.truth.campaign_report import AA_COLUMNS, aa_rows, judge

    if record:
        options.refuse_beside(ctx, "--record", "measures nothing", "fmt")
    asked = _Asked(record, runs, processes, blocks, seed, device, clocks, out)
    found = asked.records([0.0] * pairs)
    _report(AA_COLUMNS, aa_rows(judge(found)), fmt, found)


def inject(
    ctx: typer.Context,
    record: _Records = [],  # noqa: B006  # typer's default; never changed
    effects: Annotated[str, typer.Option("--effects", metavar="PERCENT,...", help="Known effects.")] = "0.2,0.5,1,2,5",
    pairs: Annotated[
        int, typer.Option("--pairs", help="Pairs of arms for each effect in a run: one verdict each.")
    ] = 20,
    runs: _Runs = 1,
    processes: _Processes = 8,
    blocks: _Blocks = 10,
    seed: _Seed = 101,
    device: options.Device = 0,
    clocks: options.Clocks = "monitor",
    out: _Out = None,
    fmt: options.Format = "table",
) -> None:
    """Injected effects: is a known number of SM cycles found, at the promised rate, by intervals that cover it?"""
    from gemm.truth.campaign_report import INJECT_COLUMNS, inject_rows, judge

    if record:
        options.refuse_beside(ctx, "--record", "measures nothing", "fmt")
    asked = _Asked(record, runs, processes, blocks, seed, device, clocks, out)
    every_pair = [size for size in _sizes(effects) for _ in range(pairs)]
    found = asked.records(every_pair)
    _report(INJECT_COLUMNS, inject_rows(judge(found)), fmt, found)
