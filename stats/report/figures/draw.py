"""Draw a figure and write it: plain data in, the bytes of an SVG or PNG out, the same on every run.

Each figure shows the interval beside the estimate and the limit beside the level, so that a reader can judge by eye
what the table says in numbers.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from stats.base.plain_words import quoted
from stats.base.safe_text import figure_text, safe_text
from stats.report.figures.bars import draw_ladder, draw_overlap, draw_predicted
from stats.report.figures.runs import draw_paired, draw_run
from stats.report.figures.style import ImageFormat, rendered
from stats.report.model import FigureData, Ladder, Overlap, Paired, Predicted, RunTrace

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_LEGEND_CHARACTERS = 100


def draw(data: FigureData, caption: str | None = None) -> Figure:
    """Draw ``data`` with its caption below (None: no caption, for a page that sets it as text)."""
    drawers: dict[type, Callable[..., Figure]] = {
        Ladder: draw_ladder,
        Predicted: draw_predicted,
        Overlap: draw_overlap,
        Paired: draw_paired,
        RunTrace: draw_run,
    }
    return drawers[type(data)](_safe(data), caption and figure_text(safe_text(caption)))


def _safe(value: Any) -> Any:
    """The data of a figure with every text in it safe: an SVG with a control in it is no XML.

    Names of any length would take all the room, and what is drawn had none: they are cut.
    """
    if isinstance(value, str):
        return figure_text(value)
    if is_dataclass(value) and not isinstance(value, type):
        safe = {field.name: _safe(getattr(value, field.name)) for field in fields(value)}
        if "label" in safe:
            safe["label"] = "\n".join(quoted(line, str) for line in safe["label"].split("\n"))
        if isinstance(value, RunTrace):
            safe["arms"] = _fitting(safe["arms"])
        return replace(value, **safe)
    if isinstance(value, (list, tuple)) and value and not isinstance(value[0], (int, float)):
        return [_safe(one) for one in value]
    return value


def _fitting(arms: list[str]) -> list[str]:
    """The arms as a legend of one line has room for them; numbered where they are cut, since their ends may differ."""
    names = list(dict.fromkeys(arms))
    if sum(map(len, names)) <= _LEGEND_CHARACTERS:
        return arms
    room = max(0, _LEGEND_CHARACTERS // len(names) - 5)
    short = {name: f"{number}: {name[:room]}…" for number, name in enumerate(names, start=1)}
    return [short[arm] for arm in arms]


def image(name: str, data: FigureData, caption: str | None, fmt: ImageFormat, *, digest: str = "") -> bytes:
    """``data`` as an SVG or PNG file, with ``digest`` in its metadata; the same bytes from the same matplotlib."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # drawn as a box, where the font lacks it
        return rendered(safe_text(name), lambda: draw(data, caption), fmt, digest)
