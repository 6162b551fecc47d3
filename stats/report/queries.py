"""Which tables does a record have? Those of every record here, those of its tool from ``tools``; each has a name.

The same names serve the command line, templates of pages and the HTML report. Nothing here computes a statistic: it
lays out what ``stats.analysis.compare`` found. The trap: an arm that did not run must keep its row and say why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from stats.analysis.effect import format_p
from stats.analysis.levels import Level
from stats.base.errors import UserError
from stats.base.tables import Column
from stats.report.comparisons import aa_table, comparisons_table
from stats.report.model import Table
from stats.report.source import Source
from stats.report.text import level_text
from stats.report.tools import tool_report

LISTED_PAIRS = 2
LISTED_ALIKE = 5  # warnings of one code; arms by the hundred may share one


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
                "remark": {source.header.reference: "reference", source.header.twin: "A/A twin"}.get(name, ""),
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
    per = "per launch, and launches are of unlike length" if source.analysis.unlike_launches else "per launch"
    return Table("Arms", columns, rows, f"{per}; mean over accepted blocks with 95 % t interval over processes")


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
    rows = []
    count = Counter(code for code, _ in told)
    seen: Counter[str] = Counter()
    for (code, message), pairs in told.items():
        seen[code] += 1
        if seen[code] <= LISTED_ALIKE:
            rows.append({"code": code, "message": message, "about": _about(pairs, len(compared))})
        elif seen[code] == LISTED_ALIKE + 1:
            rows.append({"code": code, "message": f"… and {count[code] - LISTED_ALIKE} more like it", "about": None})
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
