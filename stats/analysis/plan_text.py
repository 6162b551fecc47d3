"""How a Plan is read: one row for each number of processes, and what the pilot said about the scatter.

Nothing is computed here; every figure is a field of the Plan.
"""

from __future__ import annotations

from typing import Any

from stats.analysis.effect import percent
from stats.analysis.plan import Plan
from stats.analysis.results import to_json
from stats.analysis.stopping import TwoStages
from stats.base.tables import Column, Format, render, told
from stats.base.tables import to_json as json_text

_COLUMNS = (
    Column("processes", "processes"),
    Column("blocks", "blocks"),
    Column("half_width_percent", "half-width %", ".4f"),
    Column("power", "power", ".3f"),
    Column("t_power", "power of t alone", ".3f"),
    Column("gpu_time_s", "GPU time s", ".1f"),
    Column("recommended", "", align="left"),
)


def _two_stages(way: TwoStages | None) -> list[str]:
    if way is None:
        return []
    return [
        f"Stein's two stages instead: the pilot's {way.first} processes count, and {way.processes} in all with as many "
        f"blocks each give ±{way.half_width_percent:.4f} % whatever the others scatter; the interval must then be "
        "that of stats.analysis.stopping.stein_interval."
    ]


def render_plan(found: Plan, fmt: Format) -> str:
    """The plan as a table with notes, Markdown, CSV rows, or JSON of every field."""
    if fmt == "json":
        return json_text(to_json(found)) + "\n"
    rows: list[dict[str, Any]] = [to_json(option) for option in found.options]
    for row in rows:
        row["recommended"] = "cheapest" if row["recommended"] else ""
    body = render(_COLUMNS, rows, fmt)
    if fmt == "csv":
        return body
    one = found.deciding
    lines = [
        f"For {found.target}, alpha {found.alpha:g}, family of {found.family}, from {found.record}.",
        f"{one.a} / {one.b} in {one.metric} decides: {percent(one.within):.4f} % between blocks of a process, "
        f"{percent(one.between):.4f} % between processes, lag-1 {one.lag1:.2f} "
        f"(pilot: {one.processes} processes of {one.blocks:.0f} blocks).",
        f"A block takes {found.block_time_s:.4g} s, a process {found.process_time_s:.3g} s before its first cell.",
        "Power is that of the verdict DIFFERENT: t, Hodges–Lehmann and exact p agree.",
        *_two_stages(found.two_stages),
        *(f"[{caution.code}] {caution.message}" for caution in found.cautions),
    ]
    mark = "- " if fmt == "md" else ""
    lines = [mark + told(line, fmt) for line in lines]
    return body + "\n" + "\n".join(lines) + "\n"
