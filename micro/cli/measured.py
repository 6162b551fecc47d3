"""What is shared by commands that measure where there is a GPU, read a record where one is named, and else predict?

Both questions come before any work: does --record stand alone, and is there a device? The trap: without a device,
a prediction takes the place of what a person asked to keep (--out) or to set (--launches) and must say so.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from stats.base.errors import UserError, say
from stats.cli.options import refuse_beside, typed

if TYPE_CHECKING:
    from stats.record.schema import Record


_NEED_A_DEVICE = ("device", "figure", "out", "resume")  # parameters


def named_record(ctx: typer.Context, record: Path, *served: str) -> Record:
    """The record that --record names. Raises UserError for a file that is no record, and beside options that only a
    measurement can serve: all but the parameters ``served``."""
    refuse_beside(ctx, "--record", "measures nothing", *served)
    from stats.record.reader import read_record

    return read_record(record)


def require_tool(record: Record, tool: str) -> None:
    """Raise UserError for a record of another tool."""
    if record.header.tool != tool:
        raise UserError(
            f"{record.path or record.name}: a record of {record.header.tool}, not of {tool}; choose another"
        )


def device_is_here(ctx: typer.Context, tool: str, index: int, *shapes: str) -> bool:
    """Whether device ``index`` can measure; False without any device, after a word on a driver that fails.

    ``shapes`` are the parameters that the prediction in its place obeys: any other that was typed is named on stderr.
    Raises UserError for those that ask for what only a measurement has, and as ``require_gpu`` does.
    """
    from micro.gpu.device import cuda_device_count, driver_trouble, require_gpu

    if cuda_device_count() > 0:
        require_gpu(index)
        return True
    if trouble := driver_trouble():
        say(f"{tool}: {trouble}")
    given = typed(ctx)
    for name, option in given.items():
        if name in _NEED_A_DEVICE:
            raise UserError(
                f"{option}: there is no CUDA device, so nothing is measured; leave it out, or see micro-bench doctor"
            )
    idle = [option for name, option in given.items() if name not in shapes]
    if idle:
        say(f"{tool}: {', '.join(idle)}: no effect, since without a CUDA device nothing is measured")
    return False
