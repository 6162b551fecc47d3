"""What do records of hardware counters say: are counts what the kernels had to show, and how many conflicts are there?

The records are those of ``counters`` commands, classified as their own tables are: equal, explained or open, by launch.
The trap: a counter that exists and counts something else looks like a confirmation, so each is held against its
prediction, and one that differs without a cause stays open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Standings:
    """Predicted counts of a run, one per launch and metric: how many are equal, explained, open; the open metrics."""

    equal: int
    explained: int
    open: int
    open_keys: tuple[str, ...]

    def text(self) -> str:
        """``96 equal, 48 explained, 8 open (port_reads)``."""
        named = f" ({', '.join(self.open_keys)})" if self.open_keys else ""
        return f"{self.equal} equal, {self.explained} explained, {self.open} open{named}"


def standings(data: Mapping[str, Any]) -> Standings | None:
    """The run's classification (``micro.counters.compare``), made anew; None where the data are not of this schema."""
    from pydantic import ValidationError

    from micro.counters.compare import cause_rows, summary_rows
    from micro.counters.record import DERIVED, CountersRecord

    try:
        record = CountersRecord.model_validate({key: value for key, value in data.items() if key not in DERIVED})
    except ValidationError:
        return None
    rows = summary_rows(record)
    equal, explained, left = (sum(row[key] for row in rows) for key in ("equal", "explained", "open"))
    keys = dict.fromkeys(row["key"] for row in cause_rows(record) if row["standing"] == "open")
    return Standings(equal, explained, left, tuple(keys))


def conflicts_per_kstep(data: Mapping[str, Any], arm: str) -> float | None:
    """Bank conflicts of loads per warp k-step of an arm; None where they were not counted."""
    for launch in data.get("launches", []):
        value = launch.get("counted", {}).get("load_conflicts")
        if launch.get("arm") == arm and value is not None and launch.get("warp_ksteps"):
            return float(value) / float(launch["warp_ksteps"])
    return None
