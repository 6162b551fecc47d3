"""What happened block by block and second by second: paired differences, and the device over the run.

The trap: points that silently lie off an axis make scatter look small; the axis holds 0, the margin and the bulk of the
blocks, and what is off it is counted on it.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stats.analysis.intervals import Floats
from stats.report.figures.style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, new_figure
from stats.report.model import Paired, Panel, RunTrace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_BULK_SPREADS = 6  # interquartile ranges beyond the quartiles: normal scatter never reaches that far
_ZOOM_FROM = 8  # times the scatter: blocks that far from 0 are drawn once more, enlarged
_ARM_STYLES = (
    (BLUE, "o"),
    (ORANGE, "s"),
    (GREEN, "^"),
    (RED, "D"),
    (SKY, "v"),
    (PURPLE, "p"),
    (BLACK, "o"),
    (GREY, "s"),
)
_STEADY = 0.005  # relative spread below which a line is drawn flat, not magnified to its noise


def draw_paired(data: Paired, caption: str | None) -> Figure:
    """One panel a comparison: every block a dot, process by process, with the interval behind."""
    count = len(data.panels)
    columns = count if count < 3 else 2 if count == 4 else 3
    rows = math.ceil(count / columns)
    figure = new_figure(0.6 + (2.3 if columns > 1 else 2.9) * rows, caption)
    figure.suptitle(data.title, x=0.01, ha="left", fontsize=10, fontweight="bold")
    for number, axes in enumerate(figure.subplots(rows, columns, squeeze=False).flat):
        if number >= count:
            axes.set_axis_off()
            continue
        _draw_panel(axes, data.panels[number], data.margin_percent, wide=columns < 3)
        if number % columns == 0:
            axes.set_ylabel(f"{data.metric}, difference (%)", fontsize=8)
        if number + columns >= count:
            axes.set_xlabel("fresh process", fontsize=8)
    return figure


def _draw_panel(axes: Axes, panel: Panel, margin: float, *, wide: bool) -> None:
    axes.set_title(f"{panel.label}\n{panel.verdict}", fontsize=7, fontweight="normal", linespacing=1.3)
    axes.tick_params(labelsize=8)
    axes.axhline(0, color=BLACK, linewidth=0.9, zorder=1)
    for bound in (-margin, margin):
        axes.axhline(bound, color=GREY, linewidth=0.8, linestyle=":", zorder=1)
    parts = [np.asarray(part, dtype=np.float64) for part in panel.blocks_percent]
    if not parts:
        axes.text(0.5, 0.5, "no block", transform=axes.transAxes, ha="center")
        return
    everything = np.concatenate(parts)
    low, high = _view(everything, margin)
    axes.set_ylim(low, high)
    axes.set_xlim(0.4, len(parts) + 0.6)
    axes.set_xticks(range(1, len(parts) + 1) if len(parts) <= 16 else [1, len(parts)])
    _draw_blocks(axes, panel, parts)
    outside = int(((everything < low) | (everything > high)).sum())
    if outside:
        text = f"{outside} of {len(everything)} blocks off the axis"
        axes.text(0.99, 0.02, text, transform=axes.transAxes, ha="right", va="bottom", fontsize=6.5)
    bulk_low, bulk_high = _bulk(everything)
    away = min(abs(bulk_low), abs(bulk_high)) if bulk_low * bulk_high > 0 else 0.0
    if away > _ZOOM_FROM * (bulk_high - bulk_low) > 0:
        _enlarge(axes, panel, parts, bulk_low, bulk_high, wide=wide)


def _enlarge(axes: Axes, panel: Panel, parts: list[Floats], low: float, high: float, *, wide: bool) -> None:
    """The same blocks once more, enlarged, in the empty space between them and 0."""
    left = 0.16 if wide else 0.36
    inner = axes.inset_axes((left, 0.24, 0.99 - left, 0.5))
    inner.locator_params(axis="y", nbins=3)
    inner.set_facecolor("#f7f7f7")
    inner.tick_params(labelsize=7, bottom=False, labelbottom=False)
    inner.ticklabel_format(axis="y", useOffset=False)
    room = 0.1 * (high - low)
    inner.set_ylim(low - room, high + room)
    inner.set_xlim(0.4, len(parts) + 0.6)
    inner.text(0.995, 0.97, "enlarged", transform=inner.transAxes, ha="right", va="top", fontsize=6.5, color=GREY)
    _draw_blocks(inner, panel, parts)


def _draw_blocks(axes: Axes, panel: Panel, parts: list[Floats]) -> None:
    if math.isfinite(panel.low_percent):
        axes.axhspan(panel.low_percent, panel.high_percent, color=ORANGE, alpha=0.5, linewidth=0, zorder=2)
    if math.isfinite(panel.effect_percent):
        axes.axhline(panel.effect_percent, color=RED, linewidth=1.2, zorder=4)
    for process, values in enumerate(parts, start=1):
        places = process + np.linspace(-0.34, 0.34, len(values))
        axes.plot(places, values, "o", color=BLUE, alpha=0.55, markersize=2.4, markeredgewidth=0, zorder=3)
        mean = 100 * math.expm1(float(np.log1p(values / 100).mean()))
        axes.plot([process - 0.4, process + 0.4], [mean, mean], color=BLACK, linewidth=1.6, zorder=5)


def _bulk(values: Floats) -> tuple[float, float]:
    """Ends of the blocks without far outliers."""
    quartile_low, quartile_high = (float(quartile) for quartile in np.quantile(values, [0.25, 0.75]))
    reach = _BULK_SPREADS * max(quartile_high - quartile_low, 1e-6)
    return max(float(values.min()), quartile_low - reach), min(float(values.max()), quartile_high + reach)


def _view(values: Floats, margin: float) -> tuple[float, float]:
    """Ends of the axis in per cent: 0, the margin and the bulk of the blocks, so that one outlier flattens nothing."""
    low, high = _bulk(values)
    low, high = min(low, -margin, 0.0), max(high, margin, 0.0)
    room = 0.06 * (high - low)
    return low - room, high + room


def draw_run(data: RunTrace, caption: str | None) -> Figure:
    """Clock, power and temperature over the run, one below the other; the clock arm by arm where they are few."""
    arms = list(dict.fromkeys(data.arms))
    apart = len(arms) <= len(_ARM_STYLES)
    figure = new_figure(4.6 + 0.25 * apart, caption)
    figure.suptitle(data.title, x=0.01, ha="left", fontsize=10, fontweight="bold")
    panels = figure.subplots(3, 1, sharex=True)
    x = np.asarray(data.elapsed_s, dtype=np.float64)
    edges = [*data.starts, len(x)]
    clock, power, temperature = (
        np.asarray(values, dtype=np.float64) for values in (data.clock_mhz, data.power_w, data.temperature_c)
    )
    for axes, label, values in zip(
        panels, ("SM clock (MHz)", "power (W)", "temperature (°C)"), (clock, power, temperature), strict=True
    ):
        _frame(axes, label, data, values)
    if np.isfinite(clock).any():
        if apart:
            _draw_arms(panels[0], x, clock, np.array(data.arms), arms)
        else:
            panels[0].plot(x, clock, "o", color=BLUE, markersize=1.2, markeredgewidth=0)
    for axes, values, colour in ((panels[1], power, RED), (panels[2], temperature, GREEN)):
        if np.isfinite(values).any():
            _draw_line(axes, x, values, edges, colour)
    panels[-1].set_xlabel("time in the run (s), starts of processes left out; dotted: a fresh process; grey: left out")
    if len(x) > 1 and x.max() > x.min():
        panels[-1].set_xlim(float(x.min()), float(x.max()))
    return figure


def _frame(axes: Axes, label: str, data: RunTrace, values: Floats) -> None:
    axes.set_ylabel(label)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    for low, high in data.excluded_s:
        axes.axvspan(low, high, color=GREY, alpha=0.35, linewidth=0)
    for start in data.starts:
        axes.axvline(data.elapsed_s[start], color=GREY, linewidth=0.8, linestyle=":")
    if not np.isfinite(values).any():
        axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center", va="center", color=GREY)
        axes.set_yticks([])
        return
    middle, half = float(np.nanmean(values)), float(np.nanmax(values) - np.nanmin(values)) / 2
    if half < _STEADY * abs(middle):
        axes.set_ylim(middle * (1 - 2 * _STEADY), middle * (1 + 2 * _STEADY))
    axes.ticklabel_format(axis="y", useOffset=False)


def _draw_line(axes: Axes, x: Floats, y: Floats, edges: list[int], colour: str) -> None:
    for start, end in itertools.pairwise(edges):
        axes.plot(x[start:end], y[start:end], color=colour, linewidth=0.8)


def _draw_arms(axes: Axes, x: Floats, y: Floats, of: NDArray[np.str_], arms: list[str]) -> None:
    """The clock arm by arm: one that draws more power runs slower, which a line through all would hide."""
    for arm, (colour, marker) in zip(arms, _ARM_STYLES, strict=False):
        own = of == arm
        axes.plot(x[own], y[own], marker, color=colour, markersize=2.2, markeredgewidth=0, label=arm)
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=len(arms),
        markerscale=2.5,
        handletextpad=0.2,
        columnspacing=1.2,
        borderaxespad=0,
    )
