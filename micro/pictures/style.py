"""The look that every picture shares: one ramp of colours, boxes with a number in them, plain axes.

The ramp runs from light to dark, so its order survives grey print and colour-blind eyes, and nothing is told by
colour alone. The trap: matplotlib stamps random ids into SVG files; a fixed salt keeps equal pictures equal to the
byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


RAMP = ("#fff3c4", "#fdd98a", "#f7b267", "#e98a5b", "#cc6677", "#9b4f83", "#643f7d", "#33305f")
EMPTY, GRID, INK = "#f4f4f4", "#c8c8c8", "#222222"
STYLE: Any = {"font.family": "DejaVu Sans", "font.size": 9, "svg.hashsalt": "smem-bench", "svg.fonttype": "path"}


def ink_on(colour: str) -> str:
    """Dark text on a light colour, white on a dark one."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return INK if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else "white"


def new_figure(width_inches: float, height_inches: float) -> Figure:
    """A figure outside pyplot: no global state, no display."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    return Figure(figsize=(width_inches, height_inches), layout=ConstrainedLayoutEngine(h_pad=0.07))


def head(figure: Figure, title: str, note: str) -> None:
    """Title above and explanation below, both from the left edge."""
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    figure.supxlabel(note, x=0.01, ha="left", fontsize=8.5, color="#444444")


def legend(figure: Figure, labels: dict[str, str]) -> None:
    """Colour -> what it stands for, in one line on the right of the title."""
    from matplotlib.patches import Patch

    figure.legend(
        handles=[
            Patch(facecolor=colour, edgecolor=INK, linewidth=0.7, label=label) for colour, label in labels.items()
        ],
        loc="outside upper right",
        ncols=len(labels),
        frameon=False,
        fontsize=8,
        handlelength=1.3,
        handletextpad=0.4,
        columnspacing=1.0,
        borderaxespad=0.2,
    )


def box(axes: Axes, x: float, y: float, width: float, height: float, text: str = "", **style: Any) -> None:
    """A rectangle with ``text`` in its middle; the font and ``color`` are the text's, the rest the rectangle's."""
    from matplotlib.patches import Rectangle

    font = {key: style.pop(key) for key in ("fontsize", "fontweight", "color") if key in style}
    axes.add_patch(Rectangle((x, y), width, height, **style))
    if text:
        font.setdefault("color", ink_on(style["facecolor"]))
        axes.text(x + width / 2, y + height / 2, text, ha="center", va="center", linespacing=0.95, **font)


def grid_axes(axes: Axes, columns: Sequence[str], rows: Sequence[str], *, title: str) -> None:
    """Axes of unit cells: a label in the middle of each column and row, row 0 on top."""
    axes.set_xlim(0, len(columns))
    axes.set_ylim(len(rows), 0)
    axes.set_xticks([i + 0.5 for i in range(len(columns))], list(columns), fontsize=7)
    axes.set_yticks([i + 0.5 for i in range(len(rows))], list(rows), fontsize=7)
    axes.tick_params(length=0)
    axes.set_title(title, loc="left", fontsize=10, fontweight="bold")
    for spine in axes.spines.values():
        spine.set_edgecolor(GRID)
