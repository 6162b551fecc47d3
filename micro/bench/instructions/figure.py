"""Heat maps: how much must be under way before an instruction reaches its rate?

One panel per instruction, warps per SM across and instructions in flight up, the number of the cell in it: percent of
the 128 B/clk/SM port (mma: percent of the panel's best FMA rate). One scale of 0 to 100 % and one perceptually uniform,
colour-blind-safe map (cividis) for all panels, so that panels can be compared. The trap: a scale fitted to each panel
makes a slow instruction look like a fast one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from micro.bench.instructions.results import Point
from micro.gpu.device import SHARED_BYTES_PER_CLK
from stats.base.errors import UserError
from stats.base.safe_text import figure_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes


Grid = dict[tuple[int, int], float]  # (warps, in flight) -> percent
_COLUMNS = 4


def grid_of(points: Sequence[Point], instruction: str) -> Grid:
    """Percent of the port's 128 B/clk/SM, or for mma of the best of the grid, at each (warps, in flight)."""
    found = {}
    for point in points:
        if point.facts["instruction"] != instruction or point.facts["pattern"] not in ("way1", "registers"):
            continue
        rate = point.fma_per_clk or point.facts["bytes_per_instruction"] / point.cycles.mean
        found[point.at] = rate
    is_mma = any(p.fma_per_clk for p in points if p.facts["instruction"] == instruction)
    best = max(found.values(), default=math.nan) if is_mma else float(SHARED_BYTES_PER_CLK)
    return {at: 100 * rate / best for at, rate in found.items()}


def _panel(axes: Axes, grid: Grid, title: str) -> Any:
    import numpy as np

    warps = sorted({w for w, _ in grid})
    flight = sorted({i for _, i in grid})
    values = np.array([[grid.get((w, i), math.nan) for w in warps] for i in flight])
    picture = axes.imshow(values, origin="lower", cmap="cividis", vmin=0, vmax=100, aspect="auto")
    axes.set_xticks(range(len(warps)), [str(w) for w in warps])
    axes.set_yticks(range(len(flight)), [str(i) for i in flight])
    axes.set_title(title, fontsize=9)
    for row, i in enumerate(flight):
        for column, w in enumerate(warps):
            value = grid.get((w, i), math.nan)
            if math.isfinite(value):
                ink = "black" if value > 45 else "white"
                axes.text(column, row, f"{value:.0f}", ha="center", va="center", fontsize=8, color=ink)
    return picture


def draw_heat_maps(points: Sequence[Point], path: Path, title: str) -> None:
    """Write the figure to ``path`` (.png, .svg, .pdf). Raises UserError: no grid in the record, an unwritable path."""
    names = list(dict.fromkeys(point.facts["instruction"] for point in points))
    grids = {name: grid for name in names if len(grid := grid_of(points, name)) > 1}
    if not grids:
        raise UserError(
            "--figure: the record holds no grid of warps and instructions in flight; list several in the config"
        )
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise UserError(f"--figure {path}: choose a name that ends in .png, .svg or .pdf")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    lines = math.ceil(len(grids) / _COLUMNS)
    figure = Figure(figsize=(2.9 * _COLUMNS, 1.2 + 2.0 * lines), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(lines, _COLUMNS, squeeze=False).flatten()
    picture: Any = None
    for place, axes in enumerate(panels):
        if place >= len(grids):
            axes.set_visible(False)
            continue
        name = list(grids)[place]
        suffix = " (% of best)" if name.startswith("mma") else ""
        picture = _panel(axes, grids[name], figure_text(f"{name}{suffix}"))
    figure.supxlabel("warps per SM", fontsize=9)
    figure.supylabel("instructions in flight per warp", fontsize=9)
    figure.suptitle(figure_text(title), fontsize=10)
    bar = figure.colorbar(picture, ax=list(panels), shrink=0.6, aspect=30)
    bar.set_label(f"% of {SHARED_BYTES_PER_CLK} B/clk/SM (conflict-free pattern)", fontsize=9)
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise UserError(f"--figure {path}: cannot be written ({error.strerror})") from None
