"""How many processes and blocks will resolve what is asked, and how long will the GPU take? A pilot Record in.

The variance of a process mean is split into what differs between processes and what averages out over the blocks
inside; from both follow the half-width and the power of any number of processes and blocks. The promise of power is
that of the whole verdict (t and Hodges-Lehmann and exact p agree), by simulation, since that is what a campaign can be
held to. The trap: more blocks do nothing to the part between processes, and a pilot of few processes knows it badly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from stats.analysis import intervals
from stats.analysis.effect import log_margin, percent
from stats.analysis.exclusion import ExclusionRule
from stats.analysis.grid import Grid, Metric
from stats.analysis.inference import minimum_detectable_effect
from stats.analysis.intervals import Floats
from stats.analysis.prepare import pair_means, prepare
from stats.analysis.stopping import TwoStages, two_stages
from stats.analysis.variance import VarianceComponents, variances
from stats.analysis.verdicts import Caution, detects
from stats.base.errors import UserError
from stats.record.schema import Record

PROCESS_COUNTS = (6, 8, 10, 12, 16, 20, 24, 32)
MOST_BLOCKS = 10_000
LARGEST_EFFECT = 100.0  # standard deviations of a process mean; what it does not show, nothing shows
CLAIM_PROCESSES = 8  # the default for a claim; fewer are planned only when asked
SIMULATED = 8_000  # repetitions behind a promised power: its standard error is below .008


@dataclass(frozen=True)
class Option:
    """One way to reach the target, and what it promises."""

    processes: int
    blocks: int
    half_width_percent: float
    power: float | None  # of the verdict DIFFERENT for the effect asked for; None without one
    t_power: float | None  # of the t test alone (statsmodels)
    gpu_time_s: float
    recommended: bool = False


@dataclass(frozen=True)
class Plan:
    """What ``bench-stats plan`` answers: the pair that is hardest to resolve decides."""

    record: str
    target: str
    alpha: float
    family: int
    components: tuple[VarianceComponents, ...]
    deciding: VarianceComponents
    block_time_s: float
    process_time_s: float  # from the start of a process to its first cell
    options: tuple[Option, ...]
    cautions: tuple[Caution, ...]
    two_stages: TwoStages | None = None  # None: no half-width was asked for


def half_width(spread: float, processes: int, alpha: float = 0.05) -> float:
    """Expected half-width (log-ratio) of the t interval of ``processes`` means of this standard deviation."""
    from scipy import stats

    return float(stats.t.ppf(1 - alpha / 2, processes - 1)) * spread / math.sqrt(processes)


def t_power(effect: float, spread: float, processes: int, alpha: float = 0.05) -> float:
    """Power of the t test for a log-ratio ``effect`` (statsmodels' TTestPower)."""
    from statsmodels.stats.power import TTestPower

    return float(TTestPower().power(effect / spread, processes, alpha))


@lru_cache(maxsize=64)
def _simulated_units(processes: int) -> Floats:
    # Above 12 processes the pairs of processes behind Hodges-Lehmann grow; half as many repetitions will do.
    repetitions = SIMULATED if processes <= intervals.EXACT_FLIP_LIMIT else SIMULATED // 2
    return np.random.default_rng(processes).standard_normal((repetitions, processes))


@lru_cache(maxsize=1024)
def _verdict_power(effect_in_spreads: float, processes: int, alpha: float, family: int) -> float:
    return float(detects(_simulated_units(processes) + effect_in_spreads, alpha=alpha, family=family).mean())


@lru_cache(maxsize=256)
def _needed_effect(power: float, processes: int, alpha: float, family: int) -> float:
    """Effect, in standard deviations of a process mean, that the verdict finds with this power; inf when never."""
    # The t test alone needs less.
    low = minimum_detectable_effect(1.0, processes, alpha=alpha, power=power)
    high = 1.5 * low
    if not math.isfinite(low):
        return math.inf
    while _verdict_power(high, processes, alpha, family) < power:
        low, high = high, 1.5 * high
        if not high < LARGEST_EFFECT:
            return math.inf
    while high - low > 0.01 * high:  # finer than the simulation can tell
        middle = (low + high) / 2
        low, high = (low, middle) if _verdict_power(middle, processes, alpha, family) >= power else (middle, high)
    return high


def power_of_verdict(effect: float, spread: float, processes: int, *, alpha: float = 0.05, family: int = 1) -> float:
    """Chance that DIFFERENT is the verdict on a log-ratio ``effect``, for normal process means of this spread.

    Simulated with a fixed seed; as if all of ``family`` comparisons had to be the first of Holm's, so a lower bound.
    An A/A pair can still refuse effects as small as its own deviation.
    """
    return _verdict_power(round(abs(effect) / spread, 4), processes, alpha, family)


def _times(record: Record, grid: Grid) -> tuple[float, float]:
    """Seconds that a block takes, and that a process takes before its first cell."""
    start = grid.started_s.min(axis=2)
    steps = np.diff(start, axis=1)
    steps = steps[np.isfinite(steps) & (steps > 0)]
    launches = {cell.arm: cell.launches for cell in record.cells}
    measured = grid.time_ns * np.array([launches[arm] for arm in grid.arms])
    busy = measured.sum(axis=2)
    busy = busy[np.isfinite(busy)]
    block = float(np.median(steps)) if len(steps) else float(np.median(busy)) / 1e9 if len(busy) else math.nan
    first = start[:, 0] if start.size else np.empty(0)
    first = first[np.isfinite(first)]
    return block, float(np.median(first)) if len(first) else 0.0


def _block_counts() -> list[int]:
    """Even numbers from 2 up, at first each, later in steps of 5 %."""
    counts, count = [], 2
    while count <= MOST_BLOCKS:
        counts.append(count)
        count = max(count + 2, 2 * round(count * 1.05 / 2))
    return counts


def _solve(
    deciding: VarianceComponents,
    processes: int,
    *,
    wanted_half_width: float | None,
    effect: float | None,
    power: float,
    alpha: float,
    family: int,
) -> int | None:
    """Fewest blocks with which ``processes`` reach the target; None where no number of blocks does."""
    if wanted_half_width is not None:
        largest = wanted_half_width / half_width(1.0, processes, alpha)
    else:
        largest = (effect or 0.0) / _needed_effect(power, processes, alpha, family)
    return next((blocks for blocks in _block_counts() if deciding.spread(blocks) <= largest), None)


def plan(
    record: Record,
    *,
    half_width_percent: float | None = None,
    effect_percent: float | None = None,
    power: float = 0.8,
    a: str | None = None,
    b: str | None = None,
    metric: Metric = "cycles",
    alpha: float = 0.05,
    rule: ExclusionRule | None = None,
) -> Plan:
    """Ways to reach a half-width, or a power for an effect (one of the two is given), cheapest marked.

    Plans for ``a`` against ``b`` or for the pair of the declared family that scatters most. Raises UserError for
    targets that are not above 0, for both or neither target, and for a pilot without scatter or with one process.
    """
    if (half_width_percent is None) == (effect_percent is None):
        raise UserError("plan: give either --half-width or --effect, one of the two")
    for name, value in (("--half-width", half_width_percent), ("--effect", effect_percent)):
        if value is not None and not 0 < value < 1000:
            raise UserError(f"{name}: is {value:g} %; give one above 0")
    if not 0.05 < power < 1:
        raise UserError(f"--power: is {power:g}; give one between 0.05 and 1")
    header = record.header
    family = [pair for pair in header.comparisons if set(pair) != {header.twin, header.reference}]
    if b is not None and a is None:
        raise UserError("--b: given without --a; name both arms, or neither")
    pairs = [(a, b or header.reference)] if a is not None else family
    for arm in {arm for pair in pairs for arm in pair}:
        if arm not in record.arm_names:
            raise UserError(f"{record.name}: has no arm '{arm}'; its arms are {', '.join(record.arm_names)}")
    if not pairs:
        raise UserError(f"{record.name}: declares no comparisons; name the arms with --a and --b")
    components = [variances(record, pair, metric, rule) for pair in pairs]
    deciding = max(components, key=lambda one: one.spread(max(2, round(one.blocks))))
    prepared = prepare(record, rule)
    block_s, process_s = _times(record, prepared.grid)
    size = max(1, len(family))
    wanted = log_margin(half_width_percent) if half_width_percent is not None else None
    effect = log_margin(effect_percent) if effect_percent is not None else None
    options = []
    for processes in PROCESS_COUNTS:
        blocks = _solve(
            deciding, processes, wanted_half_width=wanted, effect=effect, power=power, alpha=alpha, family=size
        )
        if blocks is None:
            continue
        spread = deciding.spread(blocks)
        options.append(
            Option(
                processes=processes,
                blocks=blocks,
                half_width_percent=percent(half_width(spread, processes, alpha)),
                power=None if effect is None else power_of_verdict(effect, spread, processes, alpha=alpha, family=size),
                t_power=None if effect is None else t_power(effect, spread, processes, alpha),
                gpu_time_s=processes * (process_s + blocks * block_s),
            )
        )
    target = (
        f"half-width {half_width_percent:g} %"
        if half_width_percent is not None
        else f"effect {effect_percent:g} % with power {power:g}"
    )
    return Plan(
        record=record.name,
        target=target,
        alpha=alpha,
        family=size,
        components=tuple(components),
        deciding=deciding,
        block_time_s=block_s,
        process_time_s=process_s,
        options=_recommend(options),
        cautions=tuple(_cautions(deciding, options, size, alpha)),
        two_stages=None
        if wanted is None
        else two_stages([pair_means(prepared, pair, metric).means for pair in pairs], wanted, confidence=1 - alpha),
    )


def _recommend(options: list[Option]) -> tuple[Option, ...]:
    """Mark the quickest of those with processes enough for a claim; past it, more processes cost more."""
    eligible = [option for option in options if option.processes >= CLAIM_PROCESSES]
    best = min(eligible, key=lambda option: option.gpu_time_s, default=None)
    return tuple(replace(option, recommended=option is best) for option in options)


def _cautions(deciding: VarianceComponents, options: list[Option], family: int, alpha: float) -> list[Caution]:
    found = []
    if deciding.processes < CLAIM_PROCESSES:
        from scipy import stats

        df = deciding.processes - 1
        factor = math.sqrt(df / float(stats.chi2.ppf(0.2, df)))
        message = f"a pilot of {deciding.processes} processes: the scatter between processes may be {factor:.1f} times"
        found.append(Caution("small_pilot", f"{message} as large (80 % bound)"))
    if not options:
        message = f"not within reach of {PROCESS_COUNTS[-1]} processes of {MOST_BLOCKS} blocks"
        found.append(
            Caution("out_of_reach", f"{message}: the scatter between processes is {percent(deciding.between):.3f} %")
        )
    needed = intervals.processes_needed(alpha, family)
    if needed > CLAIM_PROCESSES:
        message = f"Holm's exact p in a family of {family} needs {needed} processes; with fewer the Bonferroni interval"
        found.append(Caution("family_beyond_reach", f"{message} decides"))
    return found
