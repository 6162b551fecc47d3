"""``gemm-bench tools``: whose estimate is how far off, where the truth is known?

This suite, triton's do_bench and nvbench measure the same pairs side by side; with ``--record`` the table of an earlier
run is computed again and no GPU is needed. The trap: the run is long, so that ``--out`` can be written is checked
before it starts and not after.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from stats.base.errors import UserError, say
from stats.cli import options


def tools(
    ctx: typer.Context,
    record: Path = typer.Option(None, "--record", metavar="FILE.json", help="Report on a recorded run; no GPU."),
    processes: int = typer.Option(4, "--processes", help="Fresh processes."),
    aa: int = typer.Option(6, "--aa", help="A/A pairs per process."),
    repeats: int = typer.Option(5, "--repeats", help="Pairs of each effect per process."),
    effects: str = typer.Option("0.2,0.5,1,2,5", "--effects", metavar="PERCENT,...", help="Known effects."),
    defaults: int = typer.Option(2, "--defaults", help="A/A pairs per process that nvbench repeats with its defaults."),
    seed: int = typer.Option(1, "--seed", help="Of the order, the lots and the inputs."),
    device: options.Device = 0,
    out: Annotated[Path | None, options.out_file("--out", "FILE.json", "Write the record here.")] = None,
    fmt: options.Format = "table",
) -> None:
    """Compare benchmarking tools: whose A/A error, and whose error on a known effect, is how large?"""
    from gemm.truth.tools.comparison import read_tools_record, record_text, run_tools, tools_text
    from gemm.truth.tools.design import Design
    from stats.record.freshness import marked, of_document

    if record is not None:
        options.refuse_beside(ctx, "--record", "measures nothing", "fmt")
        found = read_tools_record(record)
        sys.stdout.write(marked(tools_text(found, fmt), fmt, [of_document(record.stem, found)]))
        return
    try:
        sizes = tuple(float(part) for part in effects.split(","))
    except ValueError:
        raise UserError(f"--effects {effects!r}: write percentages separated by commas, for example 0.2,1,5") from None
    design = Design(processes=processes, aa=aa, repeats=repeats, effects_percent=sizes, defaults=defaults, seed=seed)

    from gemm.cli.campaigns import need_gpu
    from stats.base.files import write_whole
    from stats.record.writer import check_writable

    if out is not None:
        check_writable(out)
    need_gpu("comparing tools", device)
    found = run_tools(design, device=device, note=say)
    if out is not None:
        write_whole(out, record_text(found).encode("utf-8"))
    sys.stdout.write(tools_text(found, fmt))
