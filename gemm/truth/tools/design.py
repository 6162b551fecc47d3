"""What is compared when benchmarking tools are, and what is true of it? Needs no GPU and no tool.

Every tool is given the same pairs: A3 and a separately loaded copy of it, each launch followed by a spin, the copy's
longer by a known number of SM cycles (none in an A/A pair), and the same number of timed launches. Its estimate is
a / b - 1; its error is that less the truth. The traps: a tool that flushes L2 measures a longer base, in which the same
cycles are a smaller effect, so the truth is scaled to the base as it is in that state; and a pair in an order that is
always the same would give a tool's drift one sign, so which side goes first is drawn by lot.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np

from stats.base.errors import BenchError, UserError

L2State = Literal["hot", "flushed"]
OURS, OURS_PROCESSES, DO_BENCH, NVBENCH = "smem-bench", "smem-bench, fresh processes", "triton do_bench", "nvbench"
NVBENCH_DEFAULTS = "nvbench, min-time 0.5 s"

# In the order of the table: tool, measure, state of L2.
MEASURES: tuple[tuple[str, str, L2State], ...] = (
    (OURS, "SM cycles", "hot"),
    (OURS, "time", "hot"),
    (OURS_PROCESSES, "SM cycles", "hot"),
    (OURS_PROCESSES, "time", "hot"),
    (DO_BENCH, "mean", "flushed"),
    (DO_BENCH, "median", "flushed"),
    (NVBENCH, "cold mean", "flushed"),
    (NVBENCH, "cold median", "flushed"),
    (NVBENCH, "cold mean × SM clock", "flushed"),
    (NVBENCH, "batch mean", "hot"),
    (NVBENCH_DEFAULTS, "cold mean", "flushed"),
    (NVBENCH_DEFAULTS, "cold median", "flushed"),
    (NVBENCH_DEFAULTS, "cold mean × SM clock", "flushed"),
)
_L2_OF: dict[tuple[str, str], L2State] = {(tool, measure): l2 for tool, measure, l2 in MEASURES}


@dataclass(frozen=True)
class Design:
    """What is fixed before the run. Raises UserError (option named) for values that make no run."""

    processes: int = 4
    aa: int = 6  # A/A pairs per process
    repeats: int = 5  # pairs per effect and process
    effects_percent: tuple[float, ...] = (0.2, 0.5, 1.0, 2.0, 5.0)
    defaults: int = 2  # of the A/A pairs of a process, how many nvbench measures once more with its default time
    launches_per_cell: int = 5  # of ours: short, so that a block is over before the clock has moved far
    seed: int = 1
    shape: tuple[int, int, int] = (4096, 4096, 4096)
    kernel: str = "A3"

    def __post_init__(self) -> None:
        for name, lowest in (("processes", 1), ("aa", 1), ("repeats", 0), ("defaults", 0), ("seed", 0)):
            if getattr(self, name) < lowest:
                raise UserError(f"--{name}: {getattr(self, name)} is below {lowest}")
        for effect in self.effects_percent:
            if not 0 < effect < 100:
                raise UserError(f"--effects: {effect:g} is not above 0 and below 100")
        if len(set(self.effects_percent)) < len(self.effects_percent):
            raise UserError("--effects: one is given twice; name each once and ask for --repeats")


@dataclass(frozen=True)
class Pair:
    """One comparison to make: side a is longer than b by ``injected_cycles`` SM cycles a launch."""

    index: int
    effect_percent: float
    injected_cycles: int
    a_first: bool

    @property
    def sides(self) -> tuple[str, str]:
        """``("a", "b")`` in the order in which a tool that takes one after the other takes them."""
        return ("a", "b") if self.a_first else ("b", "a")


@dataclass(frozen=True)
class Measured:
    """What a tool says of one pair: a and b in its own unit, the timed launches of each, seconds for both."""

    tool: str
    measure: str
    index: int
    a: float
    b: float
    launches: int
    wall_s: float
    block_log_ratios: list[float] = field(default_factory=list)  # of ours: log(a / b) of every block


@dataclass(frozen=True)
class Comparison:
    """One estimate with its truth, as the record holds it."""

    process: int
    index: int
    effect_percent: float
    tool: str
    measure: str
    l2: str
    a: float
    b: float
    estimate_percent: float
    truth_percent: float
    launches: int
    wall_s: float
    block_log_ratios: list[float] = field(default_factory=list)

    @property
    def error_percent(self) -> float:
        """Estimate less truth, in per cent of the shorter side."""
        return self.estimate_percent - self.truth_percent


def draw_pairs(design: Design, process: int, base_cycles: float) -> list[Pair]:
    """The pairs of one process in random order; effects scaled to ``base_cycles`` of one launch with L2 hot."""
    rng = np.random.default_rng([design.seed, process])
    effects = [0.0] * design.aa + [effect for effect in design.effects_percent for _ in range(design.repeats)]
    order = rng.permutation(len(effects))
    return [
        Pair(index, effects[which], round(effects[which] / 100 * base_cycles), bool(rng.integers(2)))
        for index, which in enumerate(order)
    ]


def with_truth(
    process: int, pairs: Sequence[Pair], measured: Sequence[Measured], base_cycles: Mapping[str, float]
) -> list[Comparison]:
    """Set what the tools said against what was injected; ``base_cycles`` of one launch by state of L2.

    Raises BenchError for a figure that is not a positive number: nothing can be estimated from it.
    """
    by_index = {pair.index: pair for pair in pairs}
    found = []
    for one in measured:
        pair, l2 = by_index[one.index], _L2_OF[one.tool, one.measure]
        if not (0 < one.a < math.inf and 0 < one.b < math.inf):
            raise BenchError(f"{one.tool} {one.measure}: pair {one.index} reads {one.a} and {one.b}; not durations")
        found.append(
            Comparison(
                process=process,
                index=one.index,
                effect_percent=pair.effect_percent,
                tool=one.tool,
                measure=one.measure,
                l2=l2,
                a=one.a,
                b=one.b,
                estimate_percent=100 * (one.a / one.b - 1),
                truth_percent=100 * pair.injected_cycles / base_cycles[l2],
                launches=one.launches,
                wall_s=one.wall_s,
                block_log_ratios=one.block_log_ratios,
            )
        )
    return found


def design_from(config: Mapping[str, Any]) -> Design:
    """A design out of its JSON form. Raises UserError for what is no design."""
    try:
        lists = {"effects_percent": tuple(map(float, config["effects_percent"])), "shape": tuple(config["shape"])}
        return Design(**{**config, **lists})
    except (KeyError, TypeError, ValueError):
        names = ", ".join(field.name for field in fields(Design))
        raise UserError(f"config: not the design of a comparison of tools, which has {names}") from None
