"""What is shared by commands that measure where there is a GPU, read a record where one is named, and else predict?

Both questions come before any work: does --record stand alone, and is there a device? The trap: without a device,
what a person asked to keep (--out, --figure) cannot be had, and a prediction in its place would go unnoticed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from stats.errors import UserError
from stats.options import refuse_beside

if TYPE_CHECKING:
    from stats.records import Record

__all__ = ["device_is_here", "named_record", "require_tool"]


def named_record(ctx: typer.Context, record: Path, *served: str) -> Record:
    """The record that --record names. Raises UserError for a file that is no record, and beside options that only a
    measurement can serve: all but the parameters ``served``."""
    refuse_beside(ctx, "--record", "measures nothing", *served)
    from stats.records import read_record

    return read_record(record)


def require_tool(record: Record, tool: str) -> None:
    """Raise UserError for a record of another tool."""
    if record.header.tool != tool:
        raise UserError(
            f"{record.path or record.name}: a record of {record.header.tool}, not of {tool}; choose another"
        )


def device_is_here(tool: str, index: int, kept: dict[str, Path | None]) -> bool:
    """Whether device ``index`` can measure; False without any device, after a word on a driver that fails.

    Raises UserError for options in ``kept`` that only a measurement can serve, and as ``require_gpu`` does.
    """
    from micro.device import cuda_device_count, driver_trouble, require_gpu

    if cuda_device_count() > 0:
        require_gpu(index)
        return True
    if trouble := driver_trouble():
        print(f"{tool}: {trouble}", file=sys.stderr)
    for option, value in kept.items():
        if value is not None:
            raise UserError(f"{option}: there is no CUDA device, so nothing is measured; give a record with --record")
    return False
