"""What is fixed before the first cell: the design of a run, and the header that says so.

A ``TrialSpec`` is checked when it is made and again, against the arms that exist, when the first process has told them.
The trap: comparisons, margin and seed belong here and not into the analysis, because what is chosen after seeing the
cells proves nothing.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from stats.base.errors import BenchError, UserError
from stats.record.provenance import created_utc, git_state, software_versions
from stats.record.schema import LARGEST_COUNT, ArmInfo, ClockState, Header
from stats.run.clocks import ClockMode
from stats.run.worker import Facts


@dataclass(frozen=True)
class TrialSpec:
    """What is fixed before the first cell. Raises UserError (field named) for values that make no run.

    ``blocks`` per process, even; ``twin`` names the arm that is the reference a second time; ``comparisons`` is the
    declared family. ``preload`` names modules that a fresh process imports while the one before it still measures.
    ``cell_timeout_s`` bounds one cell, ``start_timeout_s`` the factory, which may build and load.
    """

    tool: str
    reference: str
    twin: str | None = None
    comparisons: Sequence[tuple[str, str]] = ()
    margin_percent: float = 0.5
    processes: int = 8
    blocks: int = 20
    warmup_blocks: int = 2
    seed: int = 1
    clocks: ClockMode = "monitor"
    sm_mhz: int | None = None
    memory_mhz: int | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    l2_mode: Literal["hot", "flushed"] = "hot"
    launches: int | None = None
    preload: Sequence[str] = ()
    cell_timeout_s: float = 120.0
    start_timeout_s: float = 1800.0

    def __post_init__(self) -> None:
        if self.blocks < 2 or self.blocks % 2:
            raise UserError(f"blocks: {self.blocks} is not an even number of at least 2")
        for name, lowest, most in (
            ("processes", 1, 1000),
            ("blocks", 2, 100_000),
            ("warmup_blocks", 0, LARGEST_COUNT),
            ("seed", 0, 2**63 - 1),
        ):
            if not lowest <= getattr(self, name) <= most:
                side = f"below {lowest}" if getattr(self, name) < lowest else f"above {most}"
                raise UserError(f"{name}: {getattr(self, name)} is {side}")
        for name in ("margin_percent", "cell_timeout_s", "start_timeout_s"):
            if not 0 < getattr(self, name) < math.inf:
                raise UserError(f"{name}: {getattr(self, name)} is not a positive number")
        if self.margin_percent >= 100:
            raise UserError(f"margin_percent: {self.margin_percent} is not below 100")
        for a, b in self.comparisons:
            if a == b:
                raise UserError(f"comparisons: {a} is compared with itself")


_NOT_YET = ClockState(requested="auto", effective="monitor", label="not yet known")


def make_header(spec: TrialSpec, facts: Facts | None = None, clocks: ClockState = _NOT_YET) -> Header:
    """The header of a run; without ``facts`` (before a process was started) what depends on them is left empty."""
    commit, dirty = git_state()
    names = (*facts.arms, *facts.skipped) if facts is not None else ()
    on_device: dict[str, Any] = {}
    if facts is not None:
        on_device = {
            "device": facts.device,
            "software": {**software_versions(), **facts.software},
            "source_hash": facts.source_hash,
            "sources": facts.sources,
            "build_flags": facts.build_flags,
            "workload": facts.workload,
            "arms": [ArmInfo(name=name, static=facts.static.get(name, {})) for name in names],
        }
    return Header(
        tool=spec.tool,
        created_utc=created_utc(),
        run_id=uuid.uuid4().hex[:12],
        git_commit=commit,
        git_dirty=dirty,
        config=dict(spec.config),
        seed=spec.seed,
        clocks=clocks,
        reference=spec.reference,
        twin=spec.twin,
        comparisons=[(a, b) for a, b in spec.comparisons],
        margin_percent=spec.margin_percent,
        processes=spec.processes,
        blocks=spec.blocks,
        launches=spec.launches,
        l2_mode=spec.l2_mode,
        **{"arms": [], **on_device},
    )


def check_arms(spec: TrialSpec, facts: Facts) -> None:
    """Raise UserError if the reference, the twin or a comparison names an arm that is not there."""
    known = {*facts.arms, *facts.skipped}
    if not facts.arms:
        raise UserError("arms: none can run here" + "".join(f"; {arm}: {why}" for arm, why in facts.skipped.items()))
    for what, name in (("reference", spec.reference), ("twin", spec.twin)):
        if name is not None and name in facts.skipped:
            raise UserError(f"{what} {name}: cannot run here ({facts.skipped[name]}); choose another")
        if name is not None and name not in facts.arms:
            raise UserError(f"{what} {name}: no such arm; there are {', '.join(facts.arms)}")
    for name in (name for pair in spec.comparisons for name in pair):
        if name not in known:
            raise UserError(f"comparisons: no arm {name}; there are {', '.join(sorted(known))}")
    both = sorted(set(facts.arms) & set(facts.skipped))
    if both:
        raise BenchError(f"arm {both[0]}: offered and skipped at once")
