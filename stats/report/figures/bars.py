"""Ladder, prediction and overlap: one row an arm, bars from 0, intervals as whiskers, the figures in words beside them.

The trap: an axis that starts at the smallest bar makes a small effect large, and words on top of bars and limits hide
both; bars start at 0 and the words have a column of their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stats.analysis.levels import Level
from stats.report.figures.style import BLACK, BLUE, GREEN, GREY, ORANGE, RED, SKY, new_figure
from stats.report.model import Ladder, Mark, Overlap, Predicted
from stats.report.text import level_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_ROW_INCHES = 0.3
_STYLES: Sequence[dict[str, Any]] = (
    {"color": BLUE, "edgecolor": "white"},
    {"color": ORANGE, "hatch": "////", "edgecolor": "white"},
    {"color": GREEN, "hatch": "....", "edgecolor": "white"},
    {"color": SKY, "hatch": "xxxx", "edgecolor": "white"},
)
_MARK_STYLES = ((BLACK, "--"), (RED, "-."), (GREEN, ":"))
_HOLLOW: dict[str, Any] = {
    "linestyle": "none",
    "markerfacecolor": "white",
    "markeredgecolor": ORANGE,
    "markeredgewidth": 1.8,
}


def _rows(axes: Axes, labels: Sequence[str]) -> None:
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.45, -0.55)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)


def _whisker(axes: Axes, level: Level, y: float) -> None:
    if math.isfinite(level.low):
        ends = [[level.mean - level.low], [level.high - level.mean]]
        axes.errorbar([level.mean], [y], xerr=ends, fmt="none", ecolor=BLACK, elinewidth=1.1, capsize=2.5)


def _legend(axes: Axes, columns: int, row_inches: float) -> None:
    """The legend below the axis label; none for a single series without a name."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        low, high = axes.get_ylim()
        offset = -0.44 / (abs(high - low) * row_inches)
        axes.legend(handles, labels, loc="upper left", bbox_to_anchor=(0, offset), ncols=columns, borderaxespad=0)


def _beside(axes: Axes, y: float, text: str) -> None:
    """The figure in words, in a column to the right of the axes, where no bar or line can cross it."""
    axes.text(1.02, y, text, transform=axes.get_yaxis_transform(), va="center", ha="left", fontsize=8)


def _largest(values: Sequence[float]) -> float:
    return max((value for value in values if math.isfinite(value)), default=1.0)


def draw_ladder(data: Ladder, caption: str | None) -> Figure:
    """One bar an arm, against limits and references."""
    groups = {name: number for number, name in enumerate(dict.fromkeys(bar.group for bar in data.bars))}
    height = 0.95 + _ROW_INCHES * len(data.bars) + 0.2 * bool(data.marks) + 0.25 * any(groups)
    figure = new_figure(height, caption)
    axes = figure.subplots()
    axes.set_title(data.title, pad=8 + 12 * bool(data.marks))
    _rows(axes, [bar.label for bar in data.bars])
    reach = _largest([*(bar.level.mean for bar in data.bars), *(mark.value for mark in data.marks)])
    named: set[str] = set()
    for y, bar in enumerate(data.bars):
        if not math.isfinite(bar.level.mean):
            _beside(axes, y, "not measured")
            continue
        name = bar.group if bar.group and bar.group not in named else None
        named.add(bar.group)
        axes.barh(y, bar.level.mean, height=0.66, label=name, **_STYLES[groups[bar.group] % len(_STYLES)])
        _whisker(axes, bar.level, y)
        _beside(axes, y, level_text(bar.level))
    for number, mark in enumerate(data.marks):
        _draw_mark(axes, mark, *_MARK_STYLES[number % len(_MARK_STYLES)], leftwards=mark.value > 0.5 * reach)
    axes.set_xlim(0, reach * 1.04)
    axes.set_xlabel(data.unit)
    _legend(axes, 4, _ROW_INCHES)
    return figure


def _draw_mark(axes: Axes, mark: Mark, colour: str, line: str, *, leftwards: bool) -> None:
    if math.isfinite(mark.low):
        axes.axvspan(mark.low, mark.high, color=colour, alpha=0.2, linewidth=0)
    axes.axvline(mark.value, color=colour, linestyle=line, linewidth=1.2)
    axes.annotate(
        mark.label,
        (mark.value, 1),
        (3 if leftwards else -3, 3),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        color=colour,
        fontsize=8,
        ha="right" if leftwards else "left",
        va="bottom",
    )


def draw_predicted(data: Predicted, caption: str | None) -> Figure:
    """A hollow diamond where it was predicted, a dot where it was measured, the error in words."""
    figure = new_figure(1.2 + _ROW_INCHES * len(data.rows), caption)
    axes = figure.subplots()
    axes.set_title(data.title)
    _rows(axes, [row.label for row in data.rows])
    reach = _largest([*(row.predicted for row in data.rows), *(row.level.mean for row in data.rows)])
    for y, row in enumerate(data.rows):
        names = ("predicted", "measured") if y == 0 else (None, None)
        axes.plot([row.predicted, row.level.mean], [y, y], color=GREY, linewidth=1.5, zorder=1)
        axes.plot([row.predicted], [y], marker="D", markersize=8.5, label=names[0], **_HOLLOW)
        axes.plot([row.level.mean], [y], marker="o", linestyle="none", color=BLUE, markersize=4.5, label=names[1])
        _whisker(axes, row.level, y)
        _beside(axes, y, f"{level_text(row.level)} ({100 * (row.level.mean / row.predicted - 1):+.2f} %)")
    axes.set_xlim(0, reach * 1.06)
    axes.set_xlabel(data.unit)
    _legend(axes, 2, _ROW_INCHES)
    return figure


def draw_overlap(data: Overlap, caption: str | None) -> Figure:
    """L, M and T of each variant; T lies between the larger of L and M (all hidden) and their sum (nothing hidden)."""
    figure = new_figure(1.3 + 2 * _ROW_INCHES * len(data.rows), caption)
    axes = figure.subplots()
    axes.set_title(data.title)
    _rows(axes, [row.label for row in data.rows])
    reach = _largest([max(row.load.mean + row.mma.mean, row.both.mean) for row in data.rows])
    series = (("L: load only", "load"), ("M: mma only", "mma"), ("T: load and mma", "both"))
    for y, row in enumerate(data.rows):
        for place, (name, key) in enumerate(series):
            level: Level = getattr(row, key)
            at = y + (place - 1) * 0.27
            axes.barh(at, level.mean, height=0.25, label=name if y == 0 else None, **_STYLES[place])
            _whisker(axes, level, at)
            hidden = f"   {row.hidden_percent:.0f} % hidden" if key == "both" else ""
            _beside(axes, at, f"{name[0]} {level_text(level)}{hidden}")
        all_hidden, none_hidden = max(row.load.mean, row.mma.mean), row.load.mean + row.mma.mean
        for where, line, name in (
            (all_hidden, "-", "all hidden: max(L, M)"),
            (none_hidden, (0, (1.2, 0.8)), "nothing hidden: L + M"),
        ):
            ends = [y + 0.1, y + 0.44]
            axes.plot(
                [where] * 2, ends, color=BLACK, linewidth=1.6, linestyle=line, zorder=5, label=name if y == 0 else None
            )
    axes.set_xlim(0, reach * 1.04)
    axes.set_xlabel(data.unit)
    _legend(axes, 3, 2 * _ROW_INCHES)
    return figure
