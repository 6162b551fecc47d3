"""How every figure looks and is written: one size, one palette, one font, and the same bytes on every run.

Okabe and Ito's palette (told apart by colour-blind readers), with hatches and marker shapes beside the colours so that
a grey print still tells them apart. The trap: matplotlib puts the date, its version, random ids and the last digits of
its layout into files, and a reader's matplotlibrc into figures; all five are fixed here.
"""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure


ImageFormat = Literal["svg", "png"]
IMAGE_FORMATS: tuple[ImageFormat, ...] = ("png", "svg")
BLUE, ORANGE, GREEN, RED, SKY, PURPLE = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7"
BLACK, GREY = "#222222", "#888888"
WIDTH_INCHES = 7.2
PNG_DPI, SVG_DPI = 160, 72  # of SVG matplotlib's own: its unit is the point
CAPTION_CHARACTERS = 116
CAPTION_LINE_INCHES = 0.145

_COORDINATES = re.compile(rb' (?:d|x|y)="[^"]*"')  # not in transforms, whose scales are small numbers
_DECIMALS = re.compile(rb"(\.\d\d)\d+")

_STYLE = {
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.axisbelow": True,
    "text.color": BLACK,
    "axes.labelcolor": BLACK,
    "xtick.color": BLACK,
    "ytick.color": BLACK,
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "path.simplify": False,
    "svg.fonttype": "path",
}


@contextmanager
def styled(name: str) -> Iterator[None]:
    """matplotlib's defaults and this style, whatever the reader's configuration says; ids come from ``name``."""
    import matplotlib
    import matplotlib.style

    with matplotlib.style.context(["default", {**_STYLE, "svg.hashsalt": name}]):
        yield


def new_figure(height_inches: float, caption: str | None) -> Figure:
    """A figure of the common width with room for its caption below; the plot area is ``height_inches`` high."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    lines = textwrap.wrap(caption, CAPTION_CHARACTERS) if caption else []
    below = CAPTION_LINE_INCHES * len(lines) + (0.12 if lines else 0)
    height = height_inches + below
    figure = Figure(figsize=(WIDTH_INCHES, height))
    FigureCanvasAgg(figure)
    figure.set_layout_engine("constrained", rect=(0, below / height, 1, 1 - below / height), h_pad=0.06, w_pad=0.06)
    if lines:
        figure.text(
            0.06 / WIDTH_INCHES, 0.06 / height, "\n".join(lines), fontsize=7, va="bottom", ha="left", linespacing=1.35
        )
    return figure


def rendered(name: str, draw: Callable[[], Figure], fmt: ImageFormat, digest: str = "") -> bytes:
    """The bytes of one figure, the same on every run of the same matplotlib; ``digest`` goes into its metadata."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    out = io.BytesIO()
    described = {"Description": f"smem-bench {digest}"} if digest else {}
    with styled(name):
        figure = draw()
        # The canvases themselves: savefig would lay the figure out and draw it once more, to no end.
        if fmt == "svg":
            canvas = FigureCanvasSVG(figure)
            _settle(figure, SVG_DPI)
            canvas.print_svg(out, metadata={"Date": None, "Creator": None, **described})  # type: ignore[no-untyped-call]
            return _shortened(out.getvalue())
        agg = FigureCanvasAgg(figure)
        _settle(figure, PNG_DPI)
        agg.print_png(out, metadata={"Software": None, **described})  # type: ignore[no-untyped-call]
        return out.getvalue()


def _settle(figure: Figure, dpi: int) -> None:
    """Lay the figure out once, to nine decimals of its size, and keep that.

    The layout's solver goes through its variables in the order of their addresses, so that its last digits change from
    run to run, and with them the ids that matplotlib makes of clip rectangles.
    """
    figure.dpi = dpi
    engine = figure.get_layout_engine()
    if engine is None:
        return
    engine.execute(figure)
    figure.set_layout_engine("none")
    for axes in figure.axes:
        left, bottom, width, height = (round(float(value), 9) for value in axes.get_position().bounds)
        axes.set_position((left, bottom, width, height))


def _shortened(svg: bytes) -> bytes:
    """Coordinates to a hundredth of a point: matplotlib writes six decimals, which no screen or print resolves."""
    return _COORDINATES.sub(lambda found: _DECIMALS.sub(rb"\1", found[0]), svg)
