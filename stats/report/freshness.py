"""Are the kernels behind a figure still those of today? A hash and the files it covers in, a state and a line out.

The trap: silence reads as "yes", so a hash whose files are not named is told apart from one that is still right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from stats.provenance import PACKAGE_ROOT, todays_hash

__all__ = ["Freshness", "freshness"]


@dataclass(frozen=True)
class Freshness:
    """``fresh``: today's sources give the record's hash. ``unknown``: the record does not name its sources.

    ``none``: nothing was hashed (functions that somebody compared). ``line`` is what an output prints when not fresh.
    """

    state: Literal["fresh", "stale", "unknown", "none"]
    line: str | None = None


def freshness(source_hash: str, sources: Sequence[str], flags: Sequence[str], root: Path = PACKAGE_ROOT) -> Freshness:
    """Hold a record's hash against the sources of today, found under ``root``."""
    if source_hash == "none":
        return Freshness("none")
    if not sources:
        line = (
            f"recorded from kernel sources {source_hash}; it names no files, so nobody can say whether they are today's"
        )
        return Freshness("unknown", line)
    today = todays_hash(sources, flags, root)
    if today == source_hash:
        return Freshness("fresh")
    gone = next((name for name in sources if not (root / name).is_file()), None)
    now = f"today's are {today}" if today else f"{gone} is no longer there"
    return Freshness("stale", f"STALE: recorded from kernel sources {source_hash}, {now}; measure again before quoting")
