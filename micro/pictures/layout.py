"""What does a swizzle move, and which lane holds which element of an mma fragment?

Every place is asked of ``layout.cuh`` through micro.model.layout; no rule is written here, the XOR in a title is read
back from where the chunks went. The trap: a row of natural B spans the 32 banks twice, so its picture shows the first
half.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from micro.model.banks import BANKS, Kind, wavefronts
from micro.model.layout import layout
from micro.model.variants import BLayout
from micro.pictures.style import EMPTY, GRID, INK, RAMP, box, grid_axes, head, legend, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


SWIZZLES = {"a": "A[m][k]", "b": "B[k][n]", "bt": "B transposed, [n][k]"}
_ROWS = 8  # of one 8x8 tile
_LINE_BYTES = 4 * BANKS
_REGISTER_COLOURS = (RAMP[0], RAMP[2], RAMP[4], RAMP[6])


def _offset(name: str, swizzle: bool, row: int, column: int) -> int:
    where = layout()
    if name == "a":
        return where.a_offset(swizzle, row, column)
    if name == "b":
        return where.b_offset(BLayout.NATURAL, swizzle, row, column)
    return where.b_offset(BLayout.TRANSPOSED, swizzle, column, row)


def _chunk_panel(
    axes: Axes, places: NDArray[np.int64], *, title: str, columns: Sequence[str], ylabel: str, xlabel: str
) -> None:
    """Places [lines, slots, 2] say which (row, chunk) of the tile lies there; chunk 0 is outlined and coloured."""
    for y, line in enumerate(places.tolist()):
        for x, (row, chunk) in enumerate(line):
            if chunk == 0:
                style = {"facecolor": RAMP[row], "edgecolor": INK, "linewidth": 1.6, "fontweight": "bold"}
            else:
                style = {"facecolor": EMPTY, "edgecolor": GRID, "linewidth": 0.6, "color": "#666666"}
            box(axes, x + 0.04, y + 0.06, 0.92, 0.88, f"r{row} c{chunk}", fontsize=7.5, **style)
    grid_axes(axes, columns, [str(y) for y in range(len(places))], title=title)
    axes.set_ylabel(ylabel)
    axes.set_xlabel(xlabel)
    for spine in axes.spines.values():
        spine.set_visible(False)


def swizzle_figure(name: str) -> Figure:
    """Swizzle ``"a"``, ``"b"`` or ``"bt"``: the tile, and where its chunks lie in the banks without and with it."""
    where = layout()
    chunk_bytes = where.constants.chunk_bytes
    chunk_elements = chunk_bytes // _offset(name, False, 0, 1)
    pitch = _offset(name, False, 1, 0)
    slots = _LINE_BYTES // chunk_bytes
    chunks = min(pitch // chunk_bytes, slots)
    lines_per_row = max(1, pitch // _LINE_BYTES)

    def in_memory(swizzle: bool) -> NDArray[np.int64]:
        places = np.full((_ROWS * chunks // slots, slots, 2), -1, dtype=np.int64)
        for row in range(_ROWS):
            for chunk in range(chunks):
                at = _offset(name, swizzle, row, chunk * chunk_elements)
                places[at // _LINE_BYTES // lines_per_row, at % _LINE_BYTES // chunk_bytes] = (row, chunk)
        return places

    def verdict(swizzle: bool) -> str:
        first_chunks = np.array([_offset(name, swizzle, row, 0) for row in range(_ROWS)])
        ways = wavefronts(first_chunks, chunk_bytes, Kind.LDMATRIX).ways
        return "no conflict" if ways == 1 else f"{ways}-way conflict"

    figure = new_figure(13.6, 3.9)
    panels = figure.subplots(1, 3, width_ratios=[chunks, slots, slots])
    _chunk_panel(
        panels[0],
        np.array([[(row, chunk) for chunk in range(chunks)] for row in range(_ROWS)]),
        title="the tile",
        columns=[str(chunk * chunk_elements) for chunk in range(chunks)],
        ylabel="row",
        xlabel="column of the chunk's first element",
    )
    for axes, swizzle in ((panels[1], False), (panels[2], True)):
        _chunk_panel(
            axes,
            in_memory(swizzle),
            title=f"in memory, swizzle {'on' if swizzle else 'off'}: {verdict(swizzle)}",
            columns=[f"{4 * slot}–{4 * slot + 3}" for slot in range(slots)],
            ylabel="row" if lines_per_row > 1 else "line of 128 bytes",
            xlabel="banks",
        )
    moved = " ".join(str(where.swizzle(name, row, 0) // chunk_elements) for row in range(_ROWS))
    half = " Of each row the first 128 bytes are shown; the other half behaves alike." if lines_per_row > 1 else ""
    head(
        figure,
        f"Swizzle of {SWIZZLES[name]}: in rows 0 to 7 the chunk is XORed with {moved}",
        f"r: row, c: chunk of 16 bytes. Coloured by row: the eight rows of an 8×8 tile that ldmatrix reads.{half}",
    )
    return figure


def fragment_figure() -> Figure:
    """Which lane and register of mma.m16n8k16 holds which element of A, B and C."""
    where = layout()
    figure = new_figure(12.4, 6.3)
    panels = figure.subplots(1, 3, width_ratios=[16, 8, 8])
    for axes, name, fragment, registers, size, labels, shape in (
        (panels[0], "A", where.a_fragment, 4, (1, 2), ("m", "k"), (16, 16)),
        (panels[1], "B", where.b_fragment, 2, (2, 1), ("k", "n"), (16, 8)),
        (panels[2], "C", where.c_fragment, 4, (1, 1), ("m", "n"), (16, 8)),
    ):
        for register in range(registers):
            style = {"facecolor": _REGISTER_COLOURS[register], "edgecolor": INK, "linewidth": 0.7, "fontsize": 8}
            for lane, (y, x) in enumerate(fragment(register).tolist()):
                box(axes, x, y, size[1], size[0], str(lane), **style)
        rows, columns = ([str(i) for i in range(extent)] for extent in shape)
        grid_axes(axes, columns, rows, title=f"{name}[{labels[0]}][{labels[1]}], {shape[0]} × {shape[1]}")
        axes.set_xlabel(labels[1])
        axes.set_ylabel(labels[0])
        axes.set_aspect("equal")
    legend(figure, {colour: f"register {index}" for index, colour in enumerate(_REGISTER_COLOURS)})
    head(
        figure,
        "mma.m16n8k16: the lane that holds each element",
        "Number: lane. A box is one register: in A and B two 16-bit neighbours in k, in C one fp32 element.",
    )
    return figure
