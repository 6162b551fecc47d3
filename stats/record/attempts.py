"""Which cells count when a process was interrupted and repeated, and may this record be continued at all?

A process is the unit of inference, so only an attempt that has every arm in every block counts, and of several the
last. What an interrupted attempt measured stays in the record and out of the analysis. The trap: a record continued
with other sources, another device or another seed would be two experiments under one header, so every field must agree.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from stats.base.errors import UserError
from stats.record.schema import CellRow, Header, Record, without_nan

_IDENTITY = (
    "tool",
    "reference",
    "twin",
    "comparisons",
    "margin_percent",
    "processes",
    "blocks",
    "launches",
    "l2_mode",
    "seed",
    "config",
)
_IDENTITY_ON_DEVICE = ("source_hash", "build_flags", "device", "software", "workload")


def complete_attempts(record: Record) -> dict[int, int]:
    """For every process that has one, its last attempt that holds each arm that could run in each block."""
    skipped = {skip.arm for skip in record.skips}
    expected = record.header.blocks * sum(name not in skipped for name in record.arm_names)
    seen: defaultdict[tuple[int, int], set[tuple[int, str]]] = defaultdict(set)
    for cell in record.cells:
        seen[cell.process, cell.attempt].add((cell.block, cell.arm))
    complete: dict[int, int] = {}
    for (process, attempt), cells in seen.items():
        if len(cells) >= expected:
            complete[process] = max(attempt, complete.get(process, 0))
    return complete


def final_cells(record: Record) -> list[CellRow]:
    """The cells that an analysis uses: of each process its last complete attempt, in the order of the record."""
    complete = complete_attempts(record)
    return [cell for cell in record.cells if complete.get(cell.process) == cell.attempt]


def next_attempt(record: Record, process: int) -> int:
    """The number of the next attempt of ``process``: one more than the largest that the record knows."""
    known = [event.attempt for event in record.events if event.process == process]
    known += [cell.attempt for cell in record.cells if cell.process == process]
    return max(known, default=-1) + 1


def require_same_run(old: Header, new: Header, *, known_device: bool = True) -> None:
    """Raise UserError naming the first field in which ``new`` is another run than ``old``.

    ``known_device`` False compares only what is known before a process was started.
    """
    if known_device:
        _same("arms", [arm.name for arm in old.arms], [arm.name for arm in new.arms])
        _same("clocks", old.clocks.effective, new.clocks.effective)
        _same("clocks.locked_sm_mhz", old.clocks.locked_sm_mhz, new.clocks.locked_sm_mhz)
    for name in _IDENTITY + (_IDENTITY_ON_DEVICE if known_device else ()):
        _same(name, getattr(old, name), getattr(new, name))


def _same(name: str, old: Any, new: Any) -> None:
    old, new = _json_value(old), _json_value(new)
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            _same(f"{name}.{key}", old.get(key), new.get(key))
    raise UserError(f"{name}: the record has {_short(old)}, this run {_short(new)}; choose another --out to start anew")


def _json_value(value: Any) -> Any:
    """The value as it looks after a journey through the record."""
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="json")
    return json.loads(json.dumps(without_nan(value)))


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "…"
