"""What was compared, and what may be claimed? The declared family and the A/A pair as tables.

Nothing here computes a statistic: it lays out what ``stats.analysis.compare`` found, cycles and time side by side with
the clocks that explain where they part. The trap: a comparison that cannot be tested must show no number, which would
read as a finding, and say why below the table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from stats.analysis.effect import format_p, log_margin
from stats.analysis.results import ClockConflict, Comparison
from stats.analysis.verdicts import passes_aa
from stats.base.errors import BenchError
from stats.base.tables import Column
from stats.report.model import NotInRecord, Table
from stats.report.source import Source
from stats.report.text import effect_text, verdict_text

PAIRED_NOTE = (
    "above 0 %: the first arm takes longer; 95 % t interval on the means of fresh processes; p exact, Holm-adjusted "
    "over the declared family; EQUIVALENT: 90 % interval inside ±{margin:g} %"
)


def _comparison_facts(comparison: Comparison) -> dict[str, Any]:
    found, metric = comparison.inference, comparison.metric
    low, high = found.t.percent if found.t else (math.nan, math.nan)
    family_low, family_high = found.t_simultaneous.percent if found.t_simultaneous else (math.nan, math.nan)
    narrow_low, narrow_high = found.t_tost.percent if found.t_tost else (math.nan, math.nan)
    hl_low, hl_high = found.hl.percent if found.hl else (math.nan, math.nan)
    facts = {
        "effect": effect_text(found),
        "percent": found.effect_percent,
        "low": low,
        "high": high,
        "half_width": found.half_width_percent,
        "family_low": family_low,
        "family_high": family_high,
        "narrow_low": narrow_low,
        "narrow_high": narrow_high,
        "hl_low": hl_low,
        "hl_high": hl_high,
        "detectable": found.minimum_detectable_percent,
        "p": found.p,
        "p_holm": found.p_holm,
        "p_text": format_p(found.p_holm),
        "equivalence_p": comparison.equivalence_p,
        "verdict": verdict_text(comparison),
        "n": found.n,
        "blocks": comparison.blocks,
    }
    return {f"{metric}_{key}": value for key, value in facts.items()}


def _paired_rows(source: Source, comparisons: tuple[Comparison, ...]) -> list[dict[str, Any]]:
    clocks = {arm.arm: arm.clock_mhz for arm in source.analysis.arms}
    reasons = {(conflict.a, conflict.b): conflict.reason for conflict in source.analysis.conflicts}
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for comparison in comparisons:
        pair = (comparison.a, comparison.b)
        a_mhz, b_mhz = clocks.get(pair[0], math.nan), clocks.get(pair[1], math.nan)
        row = rows.setdefault(
            pair,
            {
                "pair": f"{pair[0]} against {pair[1]}",
                "a": pair[0],
                "b": pair[1],
                "clock_a_mhz": a_mhz,
                "clock_b_mhz": b_mhz,
                "clocks": f"{a_mhz:.0f} / {b_mhz:.0f}" if a_mhz > 0 and b_mhz > 0 else None,
                "disagreement": reasons.get(pair),
            },
        )
        row |= _comparison_facts(comparison)
    return list(rows.values())


_PAIRED_COLUMNS = [
    Column("pair", "comparison", align="left"),
    Column("cycles_effect", "SM cycles [95 %]"),
    Column("cycles_p_text", "p", min_width=110),
    Column("cycles_verdict", "verdict (cycles)", align="left"),
    Column("time_effect", "time [95 %]"),
    Column("time_p_text", "p", min_width=110),
    Column("time_verdict", "verdict (time)", align="left"),
    Column("clocks", "clocks (MHz)", min_width=140),
]


def comparisons_table(source: Source) -> Table:
    """The declared family in cycles and in time.

    Raises NotInRecord for a single arm and for launches of unlike length, BenchError for 0 accepted.
    """
    analysis = source.analysis
    if not analysis.comparisons:
        if analysis.unlike_launches:
            raise NotInRecord(analysis.unlike_launches)
        arms = ", ".join(source.prepared.grid.arms) or "none"
        raise NotInRecord(f"{source.shown_as}: nothing to compare, its arms with cells are: {arms}; record two or more")
    if analysis.accepted_blocks == 0:
        raise BenchError(zero_accepted(source))
    note = PAIRED_NOTE.format(margin=analysis.margin_percent)
    note += _partings(analysis.conflicts) + _reasons(analysis.comparisons)
    return Table("Declared comparisons", _PAIRED_COLUMNS, _paired_rows(source, analysis.comparisons), note)


def _partings(conflicts: Sequence[ClockConflict]) -> str:
    """Where time and cycles disagree: the pairs that the clocks explain together, the others with what was found."""
    explained = ", ".join(f"{one.a} against {one.b}" for one in conflicts if one.explained)
    text = f"; time and cycles differ as the measured clocks do in {explained}" if explained else ""
    return text + "".join(f"; {one.a} against {one.b}: {one.reason}" for one in conflicts if not one.explained)


def _reasons(comparisons: Sequence[Comparison]) -> str:
    """Why comparisons are untestable: each reason once, with the pairs when it is not that of all."""
    pairs: dict[str, dict[str, None]] = {}
    for one in comparisons:
        if one.inference.untestable:
            pairs.setdefault(one.inference.untestable, {})[f"{one.a} against {one.b}"] = None
    every = len({(one.a, one.b) for one in comparisons})
    return "".join(
        f"; UNTESTABLE{'' if len(who) == every else ' (' + ', '.join(who) + ')'}: {why}" for why, who in pairs.items()
    )


def zero_accepted(source: Source) -> str:
    """The line for a record of which the rule left nothing: "0 accepted" and the reasons with their counts."""
    exclusion = source.prepared.exclusion
    reasons = ", ".join(f"{reason}: {count}" for reason, count in exclusion.by_reason.items())
    return f"{source.shown_as}: 0 accepted of {exclusion.blocks} whole blocks" + (f" ({reasons})" if reasons else "")


def aa_table(source: Source) -> Table:
    """The reference against its twin, judged by equivalence. Raises NotInRecord where no twin ran."""
    analysis = source.analysis
    if not analysis.aa:
        raise NotInRecord(f"{source.shown_as}: holds no A/A pair; record it with a twin")
    rows = _paired_rows(source, analysis.aa)
    margin = log_margin(analysis.margin_percent)
    for row in rows:
        for comparison in analysis.aa:
            passed = passes_aa(comparison.inference, margin)
            row[f"{comparison.metric}_passed"] = {True: "passed", False: "FAILED", None: "unknown"}[passed]
    columns = [
        Column("pair", "A/A pair", align="left"),
        Column("cycles_effect", "SM cycles [95 %]"),
        Column("cycles_passed", "A/A (cycles)", align="left"),
        Column("time_effect", "time [95 %]"),
        Column("time_passed", "A/A (time)", align="left"),
    ]
    note = f"same source loaded twice; passed: both 90 % intervals inside ±{analysis.margin_percent:g} %"
    note += _reasons(analysis.aa)
    return Table("A/A: the reference against itself", columns, rows, note)
