"""Headers and cells of records that never ran, for tests of what is done with records."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from stats.records import ArmInfo, CellRow, ClockState, Header, ProcessRow, RecordWriter, SkipRow


def header(**changes: Any) -> Header:
    fields: dict[str, Any] = {
        "tool": "test",
        "created_utc": "2025-01-01T00:00:00+00:00",
        "run_id": "run",
        "seed": 1,
        "clocks": ClockState(requested="auto", effective="monitor", label="monitor"),
        "arms": [ArmInfo(name="A"), ArmInfo(name="B", static={"registers": 40})],
        "reference": "A",
        "comparisons": [("A", "B")],
        "processes": 2,
        "blocks": 2,
    }
    return Header(**{**fields, **changes})


def cell(process: int = 0, block: int = 0, arm: str = "A", attempt: int = 0, **more: Any) -> CellRow:
    return CellRow(process, block, 0, arm, 10, 1000.5, 2000.25, attempt=attempt, **more)


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
