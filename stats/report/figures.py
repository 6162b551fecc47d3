"""Draw a figure and write it: plain data in, the bytes of an SVG or PNG out, the same on every run.

Each figure shows the interval beside the estimate and the limit beside the level, so that a reader can judge by eye
what the table says in numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from stats.report.figure_bars import draw_ladder, draw_overlap, draw_predicted
from stats.report.figure_runs import draw_paired, draw_run
from stats.report.figure_style import ImageFormat, rendered
from stats.report.model import FigureData, Ladder, Overlap, Paired, Predicted, RunTrace
from stats.safe_text import figure_text, safe_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw", "image"]


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
    """The data of a figure with every text in it safe: an SVG with a control in it is no XML."""
    if isinstance(value, str):
        return figure_text(value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: _safe(getattr(value, field.name)) for field in fields(value)})
    if isinstance(value, (list, tuple)) and value and not isinstance(value[0], (int, float)):
        return [_safe(one) for one in value]
    return value


def image(name: str, data: FigureData, caption: str | None, fmt: ImageFormat, *, digest: str = "") -> bytes:
    """``data`` as an SVG or PNG file, with ``digest`` in its metadata; the same bytes from the same matplotlib."""
    return rendered(safe_text(name), lambda: draw(data, caption), fmt, digest)
