"""Which tables does a record have? Those of every record here, those of its tool from ``tools``; each has a name.

The same names serve the command line, the README's marks and the HTML report. Nothing here computes a statistic: it
lays out what ``stats.compare`` found. The trap: a comparison that cannot be tested must show its reason where the
number would stand, not an empty cell that reads as zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from stats.errors import BenchError, UserError
from stats.inference import format_p
from stats.levels import Level
from stats.report.model import NotInRecord, Table
from stats.report.source import Source
from stats.report.text import effect_text, level_text, verdict_text
from stats.report.tools import tool_report
from stats.results import Comparison
from stats.tables import Column

__all__ = ["aa_table", "arms_table", "build_table", "comparisons_table", "main_table", "table_names", "zero_accepted"]

LISTED_PAIRS = 2
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
        "verdict": verdict_text(comparison, reason=True),
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
    Column("cycles_p_text", "p"),
    Column("cycles_verdict", "verdict (cycles)", align="left"),
    Column("time_effect", "time [95 %]"),
    Column("time_p_text", "p"),
    Column("time_verdict", "verdict (time)", align="left"),
    Column("clocks", "clocks (MHz)"),
]


def comparisons_table(source: Source) -> Table:
    """The declared family in cycles and in time. Raises NotInRecord for a single arm, BenchError for 0 accepted."""
    analysis = source.analysis
    if not analysis.comparisons:
        arms = ", ".join(source.prepared.grid.arms) or "none"
        raise NotInRecord(f"{source.shown_as}: nothing to compare, its arms with cells are: {arms}; record two or more")
    if analysis.accepted_blocks == 0:
        raise BenchError(zero_accepted(source))
    note = PAIRED_NOTE.format(margin=analysis.margin_percent)
    conflicts = "".join(f"; {one.a} against {one.b}: {one.reason}" for one in analysis.conflicts)
    return Table("Declared comparisons", _PAIRED_COLUMNS, _paired_rows(source, analysis.comparisons), note + conflicts)


def zero_accepted(source: Source) -> str:
    """The line for a record of which the rule left nothing: "0 accepted" and the reasons with their counts."""
    exclusion = source.prepared.exclusion
    reasons = ", ".join(f"{reason}: {count}" for reason, count in exclusion.by_reason.items())
    return f"{source.shown_as}: 0 accepted of {exclusion.blocks} whole blocks" + (f" ({reasons})" if reasons else "")


def aa_table(source: Source) -> Table:
    """The reference against its twin, judged by equivalence. Raises NotInRecord where no twin ran."""
    from stats.inference import log_margin
    from stats.verdicts import passes_aa

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
    return Table("A/A: the reference against itself", columns, rows, note)


def _level_cells(prefix: str, level: Level, scale: float) -> dict[str, Any]:
    mean, low, high = level.mean * scale, level.low * scale, level.high * scale
    scaled = Level(mean, low, high, level.confidence, level.n, level.unit)
    return {prefix: level_text(scaled), f"{prefix}_mean": mean, f"{prefix}_low": low, f"{prefix}_high": high}


def arms_table(source: Source) -> Table:
    """Every arm: cells that count, time and cycles a launch with interval, clock, or why it was skipped."""
    grid = source.prepared.grid
    rows: list[dict[str, Any]] = []
    summaries = {arm.arm: arm for arm in source.analysis.arms}
    skipped = {skip.arm: skip.reason for skip in source.record.skips}
    for name in source.record.arm_names:
        if name not in grid.arms:
            rows.append({"arm": name, "cells": 0, "remark": f"skipped: {skipped.get(name, 'no reason recorded')}"})
            continue
        summary = summaries[name]
        rows.append(
            {
                "arm": name,
                "cells": summary.cells,
                **_level_cells("time_us", source.level(name), 1e-3),
                **_level_cells("cycles", source.level(name, metric="cycles"), 1),
                "clock_mhz": summary.clock_mhz,
                "remark": {source.header.reference: "reference", source.header.twin: "A/A twin"}.get(name),
            }
        )
    columns = [
        Column("arm", "arm", align="left"),
        Column("cells", "cells", "d"),
        Column("time_us", "time (µs)"),
        Column("cycles", "SM cycles"),
        Column("clock_mhz", "clock (MHz)", ".0f"),
    ]
    if any(row.get("remark") for row in rows):
        columns.append(Column("remark", "", align="left"))
    return Table("Arms", columns, rows, "per launch; mean over accepted blocks with 95 % t interval over processes")


def exclusions_table(source: Source) -> Table:
    """What the blind rule took out, by reason, and per arm the cells that carried the reason."""
    exclusion = source.prepared.exclusion
    rows = [
        {
            "reason": reason,
            "blocks": count,
            "share_percent": 100 * count / exclusion.blocks,
            "cells": _cells_by_arm({arm: counts.get(reason, 0) for arm, counts in exclusion.by_arm.items()}),
        }
        for reason, count in exclusion.by_reason.items()
    ]
    columns = [
        Column("reason", "reason", align="left"),
        Column("blocks", "blocks", "d"),
        Column("share_percent", "% of blocks", ".1f"),
        Column("cells", "cells that carried it", align="left"),
    ]
    note = (
        f"{exclusion.accepted} of {exclusion.blocks} whole blocks accepted"
        f"{', UNRELIABLE' if exclusion.unreliable else ''}; {exclusion.incomplete} incomplete blocks left out before; "
        "whole blocks, all arms, by a rule that looks at neither arm nor figure"
    )
    return Table("Excluded blocks", columns, rows, note)


def _cells_by_arm(counts: Mapping[str, int]) -> str:
    if len(set(counts.values())) == 1:
        return f"every arm: {next(iter(counts.values()))}"
    return ", ".join(f"{arm}: {count}" for arm, count in counts.items() if count)


def diagnostics_table(source: Source) -> Table:
    """Position effect and warm-up slope, in time and cycles."""
    rows = [
        {"name": trend.name, "metric": trend.metric, "percent": trend.percent, "p": format_p(trend.p), "n": trend.n}
        for found in source.analysis.diagnostics
        for trend in found.trends
    ]
    columns = [
        Column("name", "test", align="left"),
        Column("metric", "in", align="left"),
        Column("percent", "change (%)", "+.3f"),
        Column("p", "p"),
        Column("n", "n", "d"),
    ]
    note = "position: last place in a block against the first; slope: last trial against the first"
    return Table("Did anything but the arms move the figures?", columns, rows, note)


def warnings_table(source: Source) -> Table:
    """Every caution of the analysis and of its comparisons, each once with those whom it is about."""
    analysis = source.analysis
    told: dict[tuple[str, str], list[str]] = {}
    if source.freshness.line:
        told[f"sources_{source.freshness.state}", source.freshness.line] = []
    for caution in analysis.cautions:
        told[caution.code, caution.message] = []
    compared = (*analysis.comparisons, *analysis.aa)
    for comparison in compared:
        for caution in comparison.cautions:
            about = f"{comparison.a} against {comparison.b} ({comparison.metric})"
            told.setdefault((caution.code, caution.message), []).append(about)
    rows = [
        {"code": code, "message": message, "about": _about(pairs, len(compared))}
        for (code, message), pairs in told.items()
    ]
    columns = [
        Column("code", "code", align="left"),
        Column("message", "warning", align="left"),
        Column("about", "of", align="left"),
    ]
    return Table("Warnings", columns, rows)


def _about(pairs: list[str], of: int) -> str | None:
    """Whom a warning is about: nobody in particular, a few by name, or how many."""
    if not pairs:
        return None
    if len(pairs) <= LISTED_PAIRS:
        return "; ".join(pairs)
    return "every comparison" if len(pairs) == of else f"{len(pairs)} of {of} comparisons"


_TABLES: Mapping[str, Callable[[Source], Table]] = {
    "comparisons": comparisons_table,
    "aa": aa_table,
    "arms": arms_table,
    "exclusions": exclusions_table,
    "diagnostics": diagnostics_table,
    "warnings": warnings_table,
}


def table_names(source: Source) -> list[str]:
    """Names of the tables of this record: its tool's first."""
    report = tool_report(source.header.tool)
    return [*(report.tables if report else ()), *_TABLES]


def main_table(source: Source) -> str:
    """The name of the table that stands for the record."""
    report = tool_report(source.header.tool)
    return report.main if report else "arms"


def build_table(source: Source, name: str) -> Table:
    """The table ``name`` of a record; raises UserError naming those that exist, NotInRecord where it cannot be made."""
    report = tool_report(source.header.tool)
    if report and name in report.tables:
        return report.tables[name](source.record)
    if name not in _TABLES:
        raise UserError(f"query {name!r}: {source.shown_as} has the tables {', '.join(table_names(source))}")
    return _TABLES[name](source)
