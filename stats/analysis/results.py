"""What does an analysis consist of? The dataclasses that tables, figures and the README are made from, and their JSON.

Everything that is printed anywhere is a field here, warnings included; an output never computes a statistic of its
own. The trap: JSON has no nan, so a figure that does not exist is null there, in every place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any, Literal

from stats.analysis.diagnostics import Autocorrelation, ClockShape, Trend
from stats.analysis.effect import Inference, Interval
from stats.analysis.exclusion import Exclusion
from stats.analysis.grid import Metric
from stats.analysis.verdicts import Caution, Verdict

ANALYSIS_SCHEMA = 1


@dataclass(frozen=True)
class RecordRef:
    """Which record: what its header says of the run, for the caption of every output."""

    name: str
    run_id: str
    tool: str
    created_utc: str
    device: str
    source_hash: str
    git_commit: str
    clocks: str
    l2_mode: str
    processes: int  # with an accepted block
    processes_planned: int
    blocks_planned: int
    seed: int
    workload: Mapping[str, Any]


@dataclass(frozen=True)
class ArmSummary:
    """One arm over the accepted blocks of one record: geometric means per launch, and the mean measured clock."""

    record: str
    arm: str
    cells: int
    time_ns: float
    sm_cycles: float
    clock_mhz: float
    clock_measured: bool  # False: the quotient of cycles and time


@dataclass(frozen=True)
class Comparison:
    """``a`` against ``b``: above 0 % means that ``a`` takes longer. Between records both are arms of the same name."""

    a: str
    b: str
    metric: Metric
    inference: Inference
    verdicts: tuple[Verdict, ...]
    equivalence_p: float = math.nan
    blocks: int = 0  # pairs behind the process means
    unmeasured_blocks: int = 0  # accepted, but a figure of this metric is missing
    declared: bool = True
    conditional: str | None = None  # what a quick look holds for
    process_means: tuple[float, ...] = ()  # log-ratios, one a unit; empty when unpaired
    lag: Autocorrelation | None = None
    cautions: tuple[Caution, ...] = ()

    @property
    def worse(self) -> bool:
        """``a`` is slower than ``b``, and that is claimed."""
        return Verdict.DIFFERENT in self.verdicts and self.inference.theta > 0

    @property
    def undecided(self) -> bool:
        """Neither a difference nor equivalence could be claimed."""
        return Verdict.INCONCLUSIVE in self.verdicts or Verdict.UNTESTABLE in self.verdicts


@dataclass(frozen=True)
class ClockConflict:
    """Time and cycles differ by more than their intervals allow for this pair, and what the measured clocks say."""

    a: str
    b: str
    time_percent: float
    cycles_percent: float
    clock_a_mhz: float
    clock_b_mhz: float
    explained: bool  # the ratio of the measured clocks lies within the interval of the discrepancy
    reason: str


@dataclass(frozen=True)
class Diagnostics:
    """Of one record: trends over position and trial index by metric, and the shape of the clock."""

    record: str
    trends: tuple[Trend, ...] = ()
    clock: ClockShape | None = None


@dataclass(frozen=True)
class Analysis:
    """The result of ``bench-stats compare``."""

    mode: Literal["paired", "unpaired"]
    records: tuple[RecordRef, ...]
    alpha: float
    margin_percent: float
    family: int  # comparisons that Holm counts, for each metric
    comparisons: tuple[Comparison, ...]
    aa: tuple[Comparison, ...]
    arms: tuple[ArmSummary, ...]
    exclusions: tuple[Exclusion, ...]
    diagnostics: tuple[Diagnostics, ...]
    conflicts: tuple[ClockConflict, ...]
    skipped: Mapping[str, str]  # arm to reason
    missing: tuple[str, ...]  # arms that only one of two records holds
    cautions: tuple[Caution, ...]

    @property
    def unreliable(self) -> bool:
        """More blocks were excluded than the rule tolerates."""
        return any(exclusion.unreliable for exclusion in self.exclusions)

    @property
    def accepted_blocks(self) -> int:
        """Accepted blocks of the record that has the fewest."""
        return min((exclusion.accepted for exclusion in self.exclusions), default=0)

    @property
    def unlike_launches(self) -> str | None:
        """Why nothing was compared, where launches of the arms hold unlike amounts of work."""
        return next((caution.message for caution in self.cautions if caution.code == "unlike_launches"), None)


_DERIVED: dict[type, tuple[str, ...]] = {
    Interval: ("percent",),
    Inference: ("effect_percent", "half_width_percent", "minimum_detectable_percent"),
    Exclusion: ("share", "unreliable"),
    Analysis: ("unreliable", "accepted_blocks"),
}


def to_json(value: Any) -> Any:
    """Turn results into plain JSON values: dataclasses to objects (percentages included), nan and inf to null."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        plain = {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
        plain |= {name: to_json(getattr(value, name)) for name in _DERIVED.get(type(value), ())}
        return {"analysis_schema": ANALYSIS_SCHEMA, **plain} if isinstance(value, Analysis) else plain
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
