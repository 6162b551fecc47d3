"""The artefact of a counter run: what each launch was, what it had to show, what the hardware counted.

One JSON file, self-contained: every table is made from it again without a GPU or ncu. What was not available is null,
with the reason beside the metric. The trap: a counter without the hash of the kernel sources explains nothing once the
kernels have changed, so the hash is not optional.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from micro.counters.config import Group
from stats.base.errors import UserError
from stats.base.plain_words import fault
from stats.record.reader import read_json
from stats.record.schema import Device

SCHEMA_VERSION = 1
DERIVED = (
    "summary",
    "causes",
    "remainders",
    "lsu_pipe",
)  # tables that the file carries for readers of JSON, made on writing


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class LaunchFacts(_Model):
    """One launch as the target made it; ``template`` are the integers of the kernel's template arguments, in order."""

    arm: str
    template: list[int]
    blocks: int
    arguments: dict[str, Any]


class Facts(_Model):
    """What the target writes about itself, launches in their order."""

    device: Device
    software: dict[str, str]
    source_hash: str
    sources: list[str] = []
    build_flags: list[str] = []
    launches: list[LaunchFacts]


class Instructions(_Model):
    """Instructions of a kernel with the same figures, each figure that of one of them over the whole launch."""

    instructions: int
    first: str  # the first one's offset in the kernel, hexadecimal
    executed: int
    wavefronts: int | None
    ideal: int | None
    tags: int | None


class LaunchRow(LaunchFacts):
    """One launch with what it had to show (``predicted``: part of the kernel → key → count) and what was counted."""

    kernel: str
    warp_ksteps: int
    predicted: dict[str, dict[str, int]]
    counted: dict[str, float | None]
    opcodes: dict[str, int] = {}
    addresses: list[Instructions] = []

    def predicted_total(self, key: str) -> int:
        """Over all parts of the launch."""
        return sum(part.get(key, 0) for part in self.predicted.values())


class MetricRow(_Model):
    """A question, the name under which this chip answered it (null: none), and why not."""

    key: str
    group: Group
    unit: str
    predicted: str | None
    name: str | None
    reason: str = ""


class DraftRow(_Model):
    """A counter name under test: does it exist on this chip, and what answers its question here?"""

    name: str
    exists: bool
    matches: list[str]
    measured_by: list[str]


class CountersRecord(_Model):
    """The whole run."""

    kind: Literal["counters"] = "counters"
    schema_version: int = SCHEMA_VERSION
    tool: str
    created_utc: str
    device: Device
    software: dict[str, str]
    git_commit: str
    git_dirty: bool
    source_hash: str
    sources: list[str] = []
    build_flags: list[str] = []
    config: dict[str, Any]
    command: list[str]
    seconds: float
    metrics: list[MetricRow]
    drafts: list[DraftRow]
    launches: list[LaunchRow]

    def metric(self, key: str) -> MetricRow | None:
        """The row of a metric key."""
        return next((metric for metric in self.metrics if metric.key == key), None)


def read_counters(path: Path) -> CountersRecord:
    """Read a record of a counter run. Raises UserError: not readable, not one, or of a newer schema."""
    data = read_json(path, "give the file that counters --out wrote")
    if not isinstance(data, dict) or data.get("kind") != "counters":
        raise UserError(f"{path}: is not a record of a counter run; give the file that counters --out wrote")
    version = data.get("schema_version")
    if version != SCHEMA_VERSION:
        raise UserError(f"{path}: schema version {version}, this program reads {SCHEMA_VERSION}")
    try:
        return CountersRecord.model_validate({key: data[key] for key in data if key not in DERIVED})
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(f"{path}: {'.'.join(map(str, first['loc']))}: {fault(first)}") from None
