"""Are the kernels behind a figure still those of today? A hash and the files it covers in, a state and a line out.

The trap: silence reads as "yes", so a hash whose files are not named is told apart from one that is still right.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from stats.base.errors import say
from stats.base.tables import Format, told
from stats.record.provenance import PACKAGE_ROOT, todays_file, todays_hash
from stats.record.schema import Record


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
    gone = next((name for name in sources if todays_file(name, root) is None), None)
    now = f"today's are {today}" if today else f"{gone} is no longer there"
    return Freshness("stale", f"STALE: recorded from kernel sources {source_hash}, {now}; measure again before quoting")


def of_record(record: Record) -> tuple[str, Freshness]:
    """The name of a record and its state."""
    header = record.header
    return record.name, freshness(header.source_hash, header.sources, header.build_flags)


def of_document(name: str, made: Mapping[str, Any]) -> tuple[str, Freshness]:
    """The same of a JSON document that carries the hash and the files behind it."""
    sources, flags = (made.get(key) or [] for key in ("sources", "build_flags"))
    return name, freshness(str(made.get("source_hash", "none")), [*map(str, sources)], [*map(str, flags)])


def marked(text: str, fmt: Format, read: Iterable[tuple[str, Freshness]]) -> str:
    """``text`` under a line on what was read and is not known to be of today's kernels.

    CSV and JSON are left as they are, for programs: there the line goes to stderr.
    """
    names: dict[str, list[str]] = {}
    for name, state in read:
        if state.line:
            names.setdefault(state.line, []).append(name)
    lines = [f"{', '.join(dict.fromkeys(found))}: {line}" for line, found in names.items()]
    if fmt in ("csv", "json"):
        for line in lines:
            say(line)
        return text
    end = "  \n" if fmt == "md" else "\n"
    return "".join(told(line, fmt) + end for line in lines) + ("\n" if lines else "") + text
