"""Which arm of a record is slower, by how much, and may that be claimed? One Record in, an Analysis out.

Blocks are narrowed by the blind rule, log-ratios are taken within blocks and averaged within processes, and every
comparison that the header declares is judged as one family, each metric by itself. The traps: picking one comparison
to look at does not shrink the family, and a margin chosen after the run is not the margin of the run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np

from stats.analysis import diagnostics
from stats.analysis.effect import Inference, log_margin
from stats.analysis.exclusion import ExclusionRule
from stats.analysis.grid import Metric
from stats.analysis.inference import BATCHES, QUICK_LOOK_BLOCKS, ROUNDING, batch_means, holm, infer, tost_p
from stats.analysis.intervals import Floats
from stats.analysis.launch_work import unlike_launches
from stats.analysis.prepare import Pair, PairMeans, Prepared, arm_summaries, pair_means, prepare, reference_of
from stats.analysis.results import Analysis, ArmSummary, ClockConflict, Comparison, Diagnostics
from stats.analysis.verdicts import Caution, decide, passes_aa
from stats.base.errors import UserError
from stats.record.schema import Record

MetricChoice: TypeAlias = Literal["time", "cycles", "both"]
CLOCK_SLACK = 0.2  # of the gap: a clock read around a cell is not quite the clock within it


def _infer_pair(found: PairMeans, alpha: float, family: int) -> tuple[Inference, Floats, str | None]:
    """Inference over processes, or, for one process with blocks enough, over its batches."""
    if found.fault:
        return replace(infer([], alpha=alpha, family=family), untestable=found.fault), found.means, None
    blocks = sum(len(part) for part in found.series)
    if len(found.means) > 1:
        return infer(found.means, alpha=alpha, family=family), found.means, None
    conditional = f"conditional on this process: {BATCHES} batch means of {blocks} blocks"
    if blocks < QUICK_LOOK_BLOCKS:
        single = infer(found.means, alpha=alpha, family=family)
        return (
            replace(single, untestable=f"{single.untestable}, or {QUICK_LOOK_BLOCKS} blocks for a quick look"),
            found.means,
            "conditional on this process",
        )
    means = batch_means(found.series[0])
    return infer(means, alpha=alpha, unit="batch", family=family), means, conditional


def _compare_family(
    prepared: Prepared, pairs: Sequence[Pair], metric: Metric, alpha: float, margin: float, aa_limit: float | None
) -> list[Comparison]:
    family = max(1, len(pairs))
    found = [pair_means(prepared, pair, metric) for pair in pairs]
    inferred = [_infer_pair(means, alpha, family) for means in found]
    adjusted = holm([inference for inference, _, _ in inferred])
    comparisons = []
    for pair, means, inference, (_, units, conditional) in zip(pairs, found, adjusted, inferred, strict=True):
        decision = decide(inference, margin, aa_limit=aa_limit)
        lag = diagnostics.autocorrelation(means.series, alpha=alpha)
        cautions = decision.cautions + ((lag.caution,) if lag.caution else ())
        if conditional:
            cautions += (Caution("conditional", conditional),)
        comparisons.append(
            Comparison(
                *pair,
                metric=metric,
                inference=inference,
                verdicts=decision.verdicts,
                equivalence_p=tost_p(units, margin) if inference.t else math.nan,
                blocks=sum(len(part) for part in means.series),
                unmeasured_blocks=means.unmeasured,
                conditional=conditional,
                process_means=tuple(float(unit) for unit in units),
                lag=lag,
                cautions=cautions,
            )
        )
    return comparisons


def aa_comparisons(prepared: Prepared, metric: Metric, alpha: float, margin: float) -> list[Comparison]:
    """The twin against the reference, judged by equivalence; empty where no twin ran."""
    header = prepared.record.header
    if header.twin is None or header.twin not in prepared.grid.arms or header.reference not in prepared.grid.arms:
        return []
    found = _compare_family(prepared, [(header.twin, header.reference)], metric, alpha, margin, None)
    passed = passes_aa(found[0].inference, margin)
    if passed is False:
        low, high = found[0].inference.t_tost.percent if found[0].inference.t_tost else (math.nan, math.nan)
        message = f"A/A ({metric}): 90 % interval [{low:+.3f}, {high:+.3f}] % is not inside the margin"
        found = [replace(found[0], cautions=(*found[0].cautions, Caution("aa_failed", message)))]
    return found


def aa_deviation(aa: Sequence[Comparison], metric: Metric) -> float | None:
    """Largest |log-ratio| of the A/A pairs in this metric; None without one."""
    found = [abs(c.inference.theta) for c in aa if c.metric == metric and math.isfinite(c.inference.theta)]
    return max(found, default=None)


def conflict(
    pair: Pair, time: Inference, cycles: Inference, gap: Inference, a: ArmSummary, b: ArmSummary
) -> ClockConflict | None:
    """Say that time and cycles disagree, and what the clocks of ``a`` and ``b`` make of it; None when they agree.

    They disagree when each estimate lies outside the other's interval and ``gap``, time less cycles, excludes 0.
    """
    # A gap without any spread (two fixed clocks) has no t interval and needs none.
    low, high = (gap.t.low, gap.t.high) if gap.t else (gap.theta, gap.theta)
    if not (time.t and cycles.t and (low > ROUNDING or high < -ROUNDING)):
        return None
    if cycles.t.low <= time.theta <= cycles.t.high or time.t.low <= cycles.theta <= time.t.high:
        return None
    of_clock = math.log(b.clock_mhz / a.clock_mhz) if a.clock_mhz > 0 and b.clock_mhz > 0 else math.nan
    slack = (high - low) / 2 + CLOCK_SLACK * abs(gap.theta)
    explained = bool(abs(gap.theta - of_clock) <= slack)
    kind = "measured clock" if a.clock_measured and b.clock_measured else "clock (cycles per time)"
    names = pair if pair[0] != pair[1] else (f"{a.arm} of {a.record}", f"{b.arm} of {b.record}")
    speeds = f"{kind} {a.clock_mhz:.0f} MHz in {names[0]}, {b.clock_mhz:.0f} MHz in {names[1]}"
    why = "which accounts for it" if explained else "which does not account for it: look at launch gaps and timers"
    says = f"time says {time.effect_percent:+.2f} %, cycles say {cycles.effect_percent:+.2f} %"
    return ClockConflict(
        *pair,
        time_percent=time.effect_percent,
        cycles_percent=cycles.effect_percent,
        clock_a_mhz=a.clock_mhz,
        clock_b_mhz=b.clock_mhz,
        explained=explained,
        reason=f"{says}: {speeds}, {why}",
    )


def _conflicts(prepared: Prepared, comparisons: Sequence[Comparison], alpha: float) -> list[ClockConflict]:
    clocks = {arm.arm: arm for arm in arm_summaries(prepared)}
    cycles = {(c.a, c.b): c for c in comparisons if c.metric == "cycles"}
    found = []
    for time in (c for c in comparisons if c.metric == "time"):
        other = cycles.get((time.a, time.b))
        if other is None or len(time.process_means) != len(other.process_means) or not time.inference.t:
            continue
        gap = infer(np.array(time.process_means) - np.array(other.process_means), alpha=alpha)
        found.append(conflict((time.a, time.b), time.inference, other.inference, gap, clocks[time.a], clocks[time.b]))
    return [one for one in found if one]


def diagnose(prepared: Prepared, metrics: Sequence[Metric], alpha: float) -> Diagnostics:
    """Trends and clock shape of one record."""
    trends = []
    for metric in metrics:
        trends.append(diagnostics.position_effect(prepared.grid, metric, alpha=alpha))
        trends.append(diagnostics.warmup_slope(prepared.grid, metric, alpha=alpha))
    return Diagnostics(prepared.record.name, tuple(trends), diagnostics.clock_shape(prepared.grid))


def metrics_of(choice: MetricChoice) -> tuple[Metric, ...]:
    """The metrics that a choice names."""
    return ("time", "cycles") if choice == "both" else (choice,)


def chosen_margin(header_percent: float, margin_percent: float | None) -> tuple[float, list[Caution]]:
    """The margin in use and, when it is not the header's, the caution that it came after the run."""
    if margin_percent is None or math.isclose(margin_percent, header_percent):
        return header_percent, []
    message = f"margin {margin_percent:g} % was chosen after the run, which declared {header_percent:g} %"
    return margin_percent, [Caution("margin_after_run", message)]


def _family_of(record: Record, a: str | None, b: str | None) -> tuple[list[Pair], Pair | None, list[Caution]]:
    """The declared family (turned so that a chosen pair reads a against b), the chosen pair, and cautions."""
    header = record.header
    twins = {header.twin, header.reference}
    family = [pair for pair in header.comparisons if set(pair) != twins]
    cautions: list[Caution] = []
    if b is not None and a is None:
        raise UserError("--b: given without --a; name both arms, or neither for the declared family")
    if a is not None:
        chosen = (a, b if b is not None else header.reference)
        for arm in chosen:
            if arm not in record.arm_names:
                raise UserError(f"{record.name}: has no arm '{arm}'; its arms are {', '.join(record.arm_names)}")
        if chosen[0] == chosen[1]:
            raise UserError(f"--a and --b: both are '{chosen[0]}'; name two arms")
        if unlike := unlike_launches(record, [chosen]):
            raise UserError(unlike)
        if chosen[::-1] in family:
            family[family.index(chosen[::-1])] = chosen
        elif chosen not in family:
            message = f"{chosen[0]} against {chosen[1]} was not declared before the run: exploratory"
            cautions.append(Caution("undeclared", message))
            family.append(chosen)
        return family, chosen, cautions
    if not family:
        family = [(arm, header.reference) for arm in record.arm_names if arm not in twins]
        if unlike := unlike_launches(record, family):
            return [], None, [Caution("unlike_launches", unlike)]
        cautions.append(Caution("no_family", f"{record.name} declares no comparisons: every arm against the reference"))
    return family, None, cautions


def analyse(
    record: Record,
    *,
    a: str | None = None,
    b: str | None = None,
    metric: MetricChoice = "both",
    margin_percent: float | None = None,
    alpha: float = 0.05,
    rule: ExclusionRule | None = None,
) -> Analysis:
    """Analyse one record: its declared family, or ``a`` against ``b`` within it; positive effects mean a is slower.

    ``margin_percent`` and ``rule`` default to the header's. Raises UserError for unknown arms, for
    arms whose launches hold different amounts of work, or for a malformed record.
    """
    prepared = prepare(record, rule)
    family, chosen, cautions = _family_of(record, a, b)
    margin_percent, late = chosen_margin(record.header.margin_percent, margin_percent)
    margin = log_margin(margin_percent)
    metrics = metrics_of(metric)
    comparisons: list[Comparison] = []
    aa: list[Comparison] = []
    for which in metrics:
        aa += aa_comparisons(prepared, which, alpha, margin)
        comparisons += _compare_family(prepared, family, which, alpha, margin, aa_deviation(aa, which))
    if not aa:
        message = f"{record.name} holds no A/A pair: no claim can be held against what the same code shows"
        cautions.append(Caution("no_aa", message))
    if chosen is not None:
        undeclared = any(caution.code == "undeclared" for caution in cautions)
        comparisons = [replace(c, declared=not undeclared) for c in comparisons if (c.a, c.b) == chosen]
    seen = diagnose(prepared, metrics, alpha)
    fired = [trend.caution for trend in seen.trends if trend.caution]
    conflicts = _conflicts(prepared, comparisons, alpha)
    return Analysis(
        mode="paired",
        records=(reference_of(prepared),),
        alpha=alpha,
        margin_percent=margin_percent,
        family=len(family),
        comparisons=tuple(comparisons),
        aa=tuple(aa),
        arms=tuple(arm_summaries(prepared)),
        exclusions=(prepared.exclusion,),
        diagnostics=(seen,),
        conflicts=tuple(conflicts),
        skipped={skip.arm: skip.reason for skip in record.skips},
        missing=(),
        cautions=(
            *prepared.cautions,
            *cautions,
            *late,
            *fired,
            *(seen.clock.cautions if seen.clock else ()),
            *(Caution("time_and_cycles_disagree", f"{c.a} against {c.b}: {c.reason}") for c in conflicts),
        ),
    )
