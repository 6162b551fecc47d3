"""Headers and cells of records that never ran, for tests of what is done with records."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from stats.record.schema import ArmInfo, CellRow, ClockState, Device, Header, ProcessRow, Record, SkipRow
from stats.record.writer import RecordWriter

H200 = Device(name="NVIDIA H200", uuid="GPU-1", compute_capability="9.0", sm_count=132)


def header(
    arms: Sequence[str | ArmInfo] = ("A", ArmInfo(name="B", static={"registers": 40})), **changes: Any
) -> Header:
    """A header over ``arms``: the twin is the one named so; its original, or else the last arm, is the reference."""
    infos = [ArmInfo(name=arm) if isinstance(arm, str) else arm for arm in arms]
    names = [arm.name for arm in infos]
    twin = next((name for name in names if name.endswith(".twin")), None)
    reference = (twin or names[-1]).removesuffix(".twin")
    fields: dict[str, Any] = {
        "tool": "test",
        "created_utc": "2026-01-01T00:00:00+00:00",
        "run_id": "run",
        "seed": 1,
        "clocks": ClockState(requested="auto", effective="monitor", label="monitored, not locked"),
        "arms": infos,
        "reference": reference,
        "twin": twin,
        "comparisons": [(name, reference) for name in names if name not in (reference, twin)],
        "processes": 2,
        "blocks": 2,
    }
    return Header(**{**fields, **changes})


def cell(process: int = 0, block: int = 0, arm: str = "A", attempt: int = 0, **more: Any) -> CellRow:
    return CellRow(process, block, 0, arm, 10, 1000.5, 2000.25, attempt=attempt, **more)


def filled(
    header: Header, arms: Sequence[str], facts: Callable[[str, int, int], dict[str, Any]], skips: Sequence[SkipRow] = ()
) -> Record:
    """A finished run: each of ``arms`` in every process and block, its cells as ``facts`` (arm, process, block) say."""
    record = Record(header=header, skips=list(skips))
    for process in range(header.processes):
        record.add(ProcessRow(process, "start"))
        for block in range(header.blocks):
            for position, arm in enumerate(arms):
                record.add(CellRow(process, block, position, arm, 1, **facts(arm, process, block)))
        record.add(ProcessRow(process, "end"))
    return record


def written(path: Path, *rows: CellRow | SkipRow | ProcessRow) -> bytes:
    """A record of ``rows`` as a file; its bytes."""
    with RecordWriter(path, header()) as writer:
        for row in rows:
            writer.append(row)
    return path.read_bytes()


ROWS = (
    ProcessRow(0, "start", other_processes=-1),
    cell(clock_mhz=1980.0, throttle_reasons=("sw_power_cap",), values={"x_ns": 1.5, "y": math.nan}),
    replace(cell(arm="B"), time_ns=math.nan),
    SkipRow("C", "needs sm_100"),
    ProcessRow(0, "end", detail="état"),
)
