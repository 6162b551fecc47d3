"""What do records of hardware counters say: are counts what the kernels had to show, and how many conflicts are there?

The records are those of ``counters`` commands, read as plain data, so that an older one still speaks. The trap: a
counter that exists and counts something else looks like a confirmation, so each is held against its prediction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["conflicts_per_kstep", "counts_as_predicted"]

_TOLERANCE = 0.01  # of the predicted count, or of the k-steps where nothing is predicted


def counts_as_predicted(data: Mapping[str, Any]) -> tuple[int, list[str]]:
    """How many predicted counts of a run were found within 1 %, and the metric keys of those that were not."""
    agree, off = 0, []
    for metric in data.get("metrics", []):
        for launch in data.get("launches", []):
            value = launch.get("counted", {}).get(metric["key"])
            parts = [part[metric["predicted"]] for part in launch["predicted"].values() if metric["predicted"] in part]
            if value is None or not parts:
                continue
            expected = sum(parts)
            if abs(value - expected) <= _TOLERANCE * max(expected, launch.get("warp_ksteps", 0)):
                agree += 1
            else:
                off.append(metric["key"])
    return agree, off


def conflicts_per_kstep(data: Mapping[str, Any], arm: str) -> float | None:
    """Bank conflicts of loads per warp k-step of an arm; None where they were not counted."""
    for launch in data.get("launches", []):
        value = launch.get("counted", {}).get("load_conflicts")
        if launch.get("arm") == arm and value is not None and launch.get("warp_ksteps"):
            return float(value) / float(launch["warp_ksteps"])
    return None
