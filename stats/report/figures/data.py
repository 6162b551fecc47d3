"""Which figures does a record have, and what stands in them? Those of every record here, those of its tool beside.

The trap: a figure must show what the analysis used: accepted blocks of the attempt that counts, in the pairs that were
declared, with the interval that the table prints.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping

from stats.analysis.grid import Metric
from stats.analysis.levels import Level
from stats.analysis.results import Comparison
from stats.base.errors import BenchError, UserError
from stats.report.comparisons import zero_accepted
from stats.report.model import Bar, FigureData, Ladder, NotInRecord, Paired, Panel, RunTrace
from stats.report.source import Source
from stats.report.text import effect_text, verdict_text
from stats.report.tools import tool_report

LISTED_VERDICTS = 4
PANEL_TITLE_CHARACTERS = 20


def paired(source: Source, metric: Metric) -> Paired:
    """Differences of every declared pair in ``metric``, block by block.

    Raises NotInRecord for a single arm and for launches of unlike length, BenchError for 0 accepted.
    """
    analysis = source.analysis
    if analysis.unlike_launches:
        raise NotInRecord(analysis.unlike_launches)
    found = [one for one in analysis.comparisons if one.metric == metric]
    if not found:
        raise NotInRecord(f"{source.shown_as}: nothing to compare; record two arms or more")
    if analysis.accepted_blocks == 0:
        raise BenchError(zero_accepted(source))
    panels = [_panel(source, one) for one in found]
    if not any(len(part) for panel in panels for part in panel.blocks_percent):
        raise NotInRecord(f"{source.shown_as}: no accepted block has {metric} figures of a declared pair")
    unit = "SM cycles" if metric == "cycles" else "time"
    return Paired(
        f"Paired differences in {unit}, block by block",
        unit,
        analysis.margin_percent,
        panels,
        "dots: blocks, in order inside a process; black: process means; red: estimate; orange: 95 % t interval on "
        f"process means; dotted: margin of equivalence ±{analysis.margin_percent:g} %",
    )


def _panel(source: Source, comparison: Comparison) -> Panel:
    grid = source.prepared.grid
    parts: list[list[float]] = []
    if comparison.a in grid.arms and comparison.b in grid.arms:
        values = grid.metric(comparison.metric)
        a, b = (values[..., grid.arm(arm)] for arm in (comparison.a, comparison.b))
        for process in range(len(grid.processes)):
            usable = grid.accepted[process] & (a[process] > 0) & (b[process] > 0)
            if usable.any():
                parts.append([float(d) for d in 100 * (a[process][usable] / b[process][usable] - 1)])
    found = comparison.inference
    low, high = found.t.percent if found.t else (math.nan, math.nan)
    space = "\n" if len(comparison.a) + len(comparison.b) > PANEL_TITLE_CHARACTERS else " "
    return Panel(
        f"{comparison.a}{space}against {comparison.b}",
        parts,
        math.nan if found.untestable else found.effect_percent,
        low,
        high,
        f"{effect_text(found)}\n{verdict_text(comparison)}",
    )


def run_trace(source: Source) -> RunTrace:
    """Clock, power and temperature in the order of measurement; every attempt, whether it counts or not."""
    cells = source.record.cells
    if not cells:
        raise NotInRecord(f"{source.shown_as}: holds no cell")
    elapsed: list[float] = []
    starts: list[int] = []
    spans: dict[tuple[int, int, int], tuple[float, float]] = {}
    offset = last = 0.0
    current: tuple[int, int] | None = None
    for cell in cells:
        attempt = (cell.process, cell.attempt)
        began = cell.started_s if math.isfinite(cell.started_s) else 0.0
        if attempt != current:
            offset, current = last - began, attempt  # a process takes seconds to start, in which nothing is measured
            starts.append(len(elapsed))
        at = offset + began
        took_s = cell.time_ns * 1e-9 if math.isfinite(cell.time_ns) else 0.0
        elapsed.append(at)
        last = max(last, at + took_s)
        if not source.accepts(cell):
            block = (cell.process, cell.attempt, cell.block)
            spans[block] = (spans.get(block, (at, at))[0], at + took_s)
    return RunTrace(
        "The device over the run",
        [cell.arm for cell in cells],
        elapsed,
        [cell.clock_mhz for cell in cells],
        [cell.power_w for cell in cells],
        [cell.temperature_c for cell in cells],
        starts,
        list(spans.values()),
        f"one point a cell; clock: measured by the cell; power and temperature: NVML; blocks left out: {len(spans)}",
    )


def time_ladder(source: Source) -> Ladder:
    """Time a launch of every arm: the ladder of a record whose tool has none of its own.

    Raises NotInRecord for launches of unlike length and for a record without a time.
    """
    if source.analysis.unlike_launches:
        raise NotInRecord(source.analysis.unlike_launches)
    arms = [arm for arm in source.prepared.grid.arms if arm != source.header.twin]
    levels = {arm: source.level(arm) for arm in arms}
    largest = max((level.mean for level in levels.values() if math.isfinite(level.mean)), default=math.nan)
    if not math.isfinite(largest):
        raise NotInRecord(f"{source.shown_as}: no arm has a time")
    scale, unit = (1e-6, "ms") if largest > 1e6 else (1e-3, "µs")

    def scaled(level: Level) -> Level:
        return Level(level.mean * scale, level.low * scale, level.high * scale, level.confidence, level.n, level.unit)

    bars = [Bar(arm, scaled(level)) for arm, level in levels.items()]
    return Ladder("Time a launch", unit, bars, note="lower is better")


_FIGURES: Mapping[str, Callable[[Source], FigureData]] = {
    "ladder": time_ladder,
    "paired": lambda source: paired(source, "cycles"),
    "paired-time": lambda source: paired(source, "time"),
    "run": run_trace,
}


def figure_names(source: Source) -> list[str]:
    """Names of the figures of this record: its tool's first."""
    report = tool_report(source.header.tool)
    return list(dict.fromkeys([*(report.figures if report else ()), *_FIGURES]))


def build_figure(source: Source, name: str) -> FigureData:
    """The data of figure ``name``; raises UserError naming those that exist, NotInRecord where it cannot be drawn."""
    report = tool_report(source.header.tool)
    if report and name in report.figures:
        return report.figures[name](source.record)
    if name not in _FIGURES:
        raise UserError(f"figure {name!r}: {source.shown_as} has the figures {', '.join(figure_names(source))}")
    return _FIGURES[name](source)


def verdict_line(source: Source) -> str:
    """The verdicts in one line: each comparison of a small family, else how many of each."""
    found = [one for one in source.analysis.comparisons if one.metric == "cycles"]
    if not found:
        return "nothing was compared"
    if len(found) <= LISTED_VERDICTS:
        return "verdicts (cycles): " + "; ".join(
            f"{one.a} against {one.b} {effect_text(one.inference)} {verdict_text(one)}" for one in found
        )
    counts = Counter(", ".join(verdict.value for verdict in one.verdicts) for one in found)
    listed = "; ".join(
        f"{count} {text}" for text, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    )
    return f"verdicts on {len(found)} declared comparisons (cycles): {listed}"


def caption_of(source: Source, data: FigureData) -> str:
    """Units and what is drawn, n, device and clocks, the verdict, and whether the sources are still today's."""
    parts = [data.note, source.caption]
    if not isinstance(data, (Paired, RunTrace)):
        parts.insert(1, "whiskers and ±: 95 % t interval on process means")
    if isinstance(data, Ladder):
        parts.append(verdict_line(source))
    if source.freshness.line:
        parts.append(source.freshness.line)
    text = ". ".join(part[0].upper() + part[1:] for part in parts if part)
    return text + "."
