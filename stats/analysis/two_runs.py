"""Did a new build change an arm? Two Records of different builds in, an Analysis out.

Blocks of two runs cannot be paired, so the process means of each run are two independent samples: Welch's interval,
the Mann-Whitney shift and an exact permutation p, with the same verdicts. The traps: two runs differ in more than the
build (temperature, neighbours, the day), which no interval of theirs contains; and runs of different devices, shapes
or cache modes are different experiments, so they are refused with the field that differs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from stats.analysis.compare import (
    MetricChoice,
    aa_comparisons,
    aa_deviation,
    chosen_margin,
    conflict,
    diagnose,
    metrics_of,
)
from stats.analysis.effect import log_margin
from stats.analysis.exclusion import ExclusionRule
from stats.analysis.grid import Metric
from stats.analysis.inference import holm, infer_unpaired, tost_p_unpaired
from stats.analysis.intervals import Floats
from stats.analysis.launch_work import refuse_unlike_work
from stats.analysis.prepare import Pair, Prepared, arm_summaries, bad_figure, pair_means, prepare, reference_of
from stats.analysis.results import Analysis, ClockConflict, Comparison
from stats.analysis.verdicts import Caution, decide
from stats.base.errors import UserError
from stats.record.schema import Header, Record


def _first_difference(old: Any, new: Any, path: str) -> tuple[str, Any, Any] | None:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new}, key=str):
            found = _first_difference(old.get(key), new.get(key), f"{path}.{key}")
            if found:
                return found
        return None
    return None if old == new else (path, old, new)


def refuse_unlike(old: Header, new: Header, *, same_source: bool = False) -> None:
    """Raise UserError naming the first field in which two runs are different experiments.

    Tool, device model, workload (shape, dtype, ...) and L2 mode must agree; with ``same_source`` the hash of the
    sources and flags must too.
    """

    def facts(header: Header) -> dict[str, Any]:
        device = header.device
        return {
            "tool": header.tool,
            "device.name": device.name if device else None,
            "device.compute_capability": device.compute_capability if device else None,
            "l2_mode": header.l2_mode,
            "workload": header.workload,
            **({"source_hash": header.source_hash} if same_source else {}),
        }

    ours, theirs = facts(old), facts(new)
    for name in ours:
        found = _first_difference(ours[name], theirs[name], name)
        if found:
            raise UserError(f"{found[0]}: {found[1]!r} in the old record, {found[2]!r} in the new; not comparable")


def _log_means(prepared: Prepared, arm: str, metric: Metric) -> tuple[Floats, str | None]:
    """Mean log figure of each process of one arm, and why it cannot be used, if so."""
    fault = bad_figure(prepared, arm, metric)
    values = prepared.grid.metric(metric)[..., prepared.grid.arm(arm)]
    usable = prepared.grid.accepted & np.isfinite(values)
    if prepared.exclusion.accepted == 0:
        fault = f"{prepared.record.name}: 0 accepted of {prepared.exclusion.blocks} whole blocks"
    elif fault is None and not usable.any():
        fault = f"{prepared.record.name} has no {metric} figure of arm {arm}"
    if fault:
        return np.empty(0), fault
    return np.array([np.log(values[p][usable[p]]).mean() for p in range(len(values)) if usable[p].any()]), None


def _sides(old: Prepared, new: Prepared, pair: Pair, metric: Metric) -> tuple[Floats, Floats, str | None]:
    """Process means of the new and the old run for an arm (twice in ``pair``) or a ratio, and why there are none."""
    if pair[0] == pair[1]:
        (ours, fault), (theirs, other) = (_log_means(run, pair[0], metric) for run in (old, new))
        return theirs, ours, fault or other
    before, after = (pair_means(run, pair, metric) for run in (old, new))
    return after.means, before.means, before.fault or after.fault


def _compare(
    old: Prepared,
    new: Prepared,
    pairs: Sequence[Pair],
    metric: Metric,
    alpha: float,
    margin: float,
    limit: float | None,
) -> list[Comparison]:
    """Judge the whole family of ``pairs`` in one metric."""
    family = max(1, len(pairs))
    sides = [_sides(old, new, pair, metric) for pair in pairs]
    found = [infer_unpaired(x, y, alpha=alpha, family=family) for x, y, _ in sides]
    found = [replace(one, untestable=fault or one.untestable) for one, (_, _, fault) in zip(found, sides, strict=True)]
    comparisons = []
    for pair, one, (x, y, _) in zip(pairs, holm(found), sides, strict=True):
        decision = decide(one, margin, aa_limit=limit)
        p = tost_p_unpaired(x, y, margin) if one.t else math.nan
        comparisons.append(
            Comparison(*pair, metric, one, decision.verdicts, equivalence_p=p, cautions=decision.cautions)
        )
    return comparisons


def _run_conflicts(
    old: Prepared, new: Prepared, comparisons: Sequence[Comparison], alpha: float
) -> list[ClockConflict]:
    """Time against cycles for each arm that is compared with itself."""
    before, after = ({arm.arm: arm for arm in arm_summaries(run)} for run in (old, new))
    cycles = {c.a: c.inference for c in comparisons if c.metric == "cycles" and c.a == c.b}
    found = []
    for one in (c for c in comparisons if c.metric == "time" and c.a in cycles and c.a == c.b):
        pair = (one.a, one.b)
        (x, y, fault), (u, v, other) = (_sides(old, new, pair, metric) for metric in ("time", "cycles"))
        if fault or other or len(x) != len(u) or len(y) != len(v):
            continue
        gap = infer_unpaired(x - u, y - v, alpha=alpha)
        found.append(conflict(pair, one.inference, cycles[one.a], gap, after[one.a], before[one.a]))
    return [one for one in found if one]


def _shared(old: Prepared, new: Prepared) -> tuple[list[str], list[str]]:
    """Arms that both runs hold, twins left out, and what is missing on either side."""
    twins = {old.record.header.twin, new.record.header.twin}
    shared = [arm for arm in new.grid.arms if arm in old.grid.arms and arm not in twins]
    missing = [
        f"{arm} (only in {run.record.name})"
        for run, other in ((old, new), (new, old))
        for arm in run.grid.arms
        if arm not in other.grid.arms and arm not in twins
    ]
    return shared, missing


def _family(new: Record, shared: list[str], a: str | None, b: str | None) -> tuple[list[Pair], Pair | None]:
    """The family - each arm against itself, or the declared ratios when one is asked for - and the pair asked for."""
    if b is not None and a is None:
        raise UserError("--b: given without --a; name an arm, or two for the change of their ratio")
    for arm in (a, b):
        if arm is not None and arm not in shared:
            raise UserError(f"arm '{arm}': not in both records; both hold {', '.join(shared) or 'none'}")
    if a is None or b is None:
        return [(arm, arm) for arm in shared], (a, a) if a is not None else None
    if a == b:
        raise UserError(f"--a and --b: both are '{a}'; name two arms")
    pairs = [pair for pair in new.header.comparisons if set(pair) <= set(shared) and set(pair) != {a, b}]
    return [*pairs, (a, b)], (a, b)


def _context(old: Record, new: Record) -> list[Caution]:
    found = [
        Caution(
            "unpaired",
            "two runs at two times: what changed between them besides the build is not in the intervals",
        )
    ]
    if old.header.run_id == new.header.run_id:
        found.append(Caution("same_run", f"both records are of run {old.header.run_id}"))
    if old.header.source_hash != new.header.source_hash:
        message = f"sources and flags differ: {old.header.source_hash} in {old.name}, {new.header.source_hash} in"
        found.append(Caution("builds_differ", f"{message} {new.name}"))
    if old.header.device and new.header.device and old.header.device.uuid != new.header.device.uuid:
        message = "two units of the same model: their difference is not separated from that of the builds"
        found.append(Caution("different_unit", message))
    if old.header.clocks.label != new.header.clocks.label:
        message = f"clocks: '{old.header.clocks.label}' against '{new.header.clocks.label}': compare cycles"
        found.append(Caution("clocks_differ", message))
    return found


def compare_runs(
    old: Record,
    new: Record,
    *,
    a: str | None = None,
    b: str | None = None,
    metric: MetricChoice = "both",
    margin_percent: float | None = None,
    alpha: float = 0.05,
    same_source: bool = False,
    rule: ExclusionRule | None = None,
) -> Analysis:
    """Compare each arm of ``new`` with itself in ``old``; above 0 % the new run takes longer.

    ``a`` picks one arm; ``a`` with ``b`` compares the ratio a/b between the runs, which what both runs share cancels
    from. Raises UserError naming the field that makes the runs incomparable, an arm whose launches are of unlike
    length, or an arm that one of them lacks.
    """
    refuse_unlike(old.header, new.header, same_source=same_source)
    refuse_unlike_work(old, new)
    before, after = prepare(old, rule), prepare(new, rule)
    shared, missing = _shared(before, after)
    family, chosen = _family(new, shared, a, b)
    margin_percent, late = chosen_margin(new.header.margin_percent, margin_percent)
    margin = log_margin(margin_percent)
    metrics = metrics_of(metric)
    aa: list[Comparison] = []
    comparisons: list[Comparison] = []
    for which in metrics:
        aa += [c for run in (before, after) for c in aa_comparisons(run, which, alpha, margin)]
        comparisons += _compare(before, after, family, which, alpha, margin, aa_deviation(aa, which))
    if chosen is not None:
        comparisons = [c for c in comparisons if (c.a, c.b) == chosen]
    conflicts = _run_conflicts(before, after, comparisons, alpha)
    cautions = [*before.cautions, *after.cautions, *_context(old, new), *late]
    if missing:
        cautions.append(Caution("missing_arms", f"compared is what both hold; missing: {', '.join(missing)}"))
    if not shared:
        cautions.append(Caution("nothing_shared", "the two records hold no arm in common"))
    if not aa:
        cautions.append(Caution("no_aa", "neither record holds an A/A pair: no claim can be held against it"))
    seen = tuple(diagnose(run, metrics, alpha) for run in (before, after))
    for run in seen:
        fired = [*(trend.caution for trend in run.trends), *(run.clock.cautions if run.clock else ())]
        cautions += [Caution(c.code, f"{run.record}: {c.message}") for c in fired if c]
    cautions += [Caution("time_and_cycles_disagree", f"{one.a}: {one.reason}") for one in conflicts]
    return Analysis(
        mode="unpaired",
        records=(reference_of(before), reference_of(after)),
        alpha=alpha,
        margin_percent=margin_percent,
        family=len(family),
        comparisons=tuple(comparisons),
        aa=tuple(aa),
        arms=(*arm_summaries(before), *arm_summaries(after)),
        exclusions=(before.exclusion, after.exclusion),
        diagnostics=seen,
        conflicts=tuple(conflicts),
        skipped={skip.arm: skip.reason for record in (old, new) for skip in record.skips},
        missing=tuple(missing),
        cautions=tuple(cautions),
    )
