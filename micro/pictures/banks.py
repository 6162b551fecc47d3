"""Which lane uses which bank in which wavefront: one picture per load instruction and per store.

Banks run across, wavefronts down; a box is what one bank serves in one wavefront, and carries the lanes it serves.
The trap: hardware does not say in which order it serves the words of a bank; here it is the order of the lanes, and
only the number of wavefronts is a claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from micro.model.banks import BANKS, Kind, Wavefronts, kstep_wavefronts, tile_store, wavefronts, words_per_phase
from micro.model.layout import layout
from micro.model.variants import BLayout, Variant
from micro.pictures.style import EMPTY, INK, RAMP, box, grid_axes, head, legend, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Access:
    """A warp-wide access to be drawn."""

    addresses: NDArray[np.int32]
    bytes_per_lane: int
    kind: Kind
    pitch_bytes: int  # from one row of the tile to the next
    swizzle: bool

    @property
    def cost(self) -> Wavefronts:
        """Its wavefronts."""
        return wavefronts(self.addresses, self.bytes_per_lane, self.kind)


@dataclass(frozen=True)
class Box:
    """A run of neighbouring banks that the same lanes use in one wavefront."""

    wavefront: int
    first_bank: int
    banks: int
    lanes: tuple[int, ...]
    row: int  # of the tile in memory


def schedule(access: Access) -> tuple[list[Box], list[tuple[int, int]]]:
    """Boxes of an access, and for each phase its first wavefront and how many it takes."""
    boxes: list[Box] = []
    phases: list[tuple[int, int]] = []
    start = first_lane = 0
    for words in words_per_phase(access.addresses, access.bytes_per_lane, access.kind):
        lanes_of: dict[int, list[int]] = {}
        for lane, lane_words in enumerate(words, start=first_lane):
            for word in lane_words:
                lanes_of.setdefault(int(word), []).append(lane)
        served = [0] * BANKS
        cells = []
        for word, lanes in sorted(lanes_of.items(), key=lambda item: (item[1][0], item[0])):
            bank = word % BANKS
            cells.append(Box(start + served[bank], bank, 1, tuple(lanes), 4 * word // access.pitch_bytes))
            served[bank] += 1
        for cell in sorted(cells, key=lambda c: (c.wavefront, c.first_bank)):
            last = boxes[-1] if boxes else cell
            alike = (last.wavefront, last.lanes, last.row) == (cell.wavefront, cell.lanes, cell.row)
            if boxes and alike and last.first_bank + last.banks == cell.first_bank:
                boxes[-1] = Box(last.wavefront, last.first_bank, last.banks + 1, last.lanes, last.row)
            else:
                boxes.append(cell)
        phases.append((start, max(served)))
        start += max(served)
        first_lane += len(words)
    return boxes, phases


def _colours(rows: Sequence[int]) -> dict[int, str]:
    """A colour for each row of memory; rows eight apart share one."""
    steps = min(len(rows), len(RAMP))
    return {row: RAMP[i % len(RAMP) * (len(RAMP) - 1) // max(1, steps - 1)] for i, row in enumerate(rows)}


def _panel(axes: Axes, access: Access, colours: dict[int, str], phase_name: str) -> None:
    boxes, phases = schedule(access)
    cost = access.cost
    axes.set_facecolor(EMPTY)
    axes.vlines(range(1, BANKS), 0, cost.total, color="white", linewidth=0.6, zorder=0.5)
    axes.hlines(range(1, cost.total), 0, BANKS, color="white", linewidth=0.6, zorder=0.5)
    for one in boxes:
        text = "\n".join(str(lane) for lane in one.lanes) if one.banks == 1 else f"lane {one.lanes[0]}"
        style = {"facecolor": colours[one.row], "edgecolor": INK, "linewidth": 0.7}
        size = 7.5 if len(one.lanes) == 1 else 6.5
        box(axes, one.first_bank, one.wavefront, one.banks, 1, text, fontsize=size, **style)
    for index, (start, count) in enumerate(phases):
        if index:
            axes.axhline(start, color=INK, linewidth=1.4)
        if len(phases) > 1:
            axes.text(BANKS + 0.3, start + count / 2, f"{phase_name} {index}", va="center", ha="left", fontsize=8)
    verdict = "no bank conflict" if cost.ways == 1 else f"{cost.ways}-way bank conflict"
    count_text = f"{cost.total} wavefront{'s' if cost.total > 1 else ''}, ideal {cost.ideal}"
    grid_axes(
        axes,
        [str(bank) for bank in range(BANKS)],
        [str(y) for y in range(cost.total)],
        title=f"swizzle {'on' if access.swizzle else 'off'}: {count_text} – {verdict}",
    )
    axes.set_ylabel("wavefront", fontsize=8)


def _figure(panels: Sequence[Access], *, title: str, note: str, phase_name: str) -> Figure:
    heights = [max(access.cost.total, 1.3) for access in panels]
    unit_inches = 0.32 if max(heights) <= 8 else 0.23
    figure = new_figure(12.4, unit_inches * sum(heights) + 0.62 * len(panels) + 1.15)
    rows = sorted({one.row for access in panels for one in schedule(access)[0]})
    colours = _colours(rows)
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    for one, access in zip(axes, panels, strict=True):
        _panel(one, access, colours, phase_name)
    axes[-1].set_xlabel("bank = (byte address / 4) mod 32")
    labels: dict[str, str] = {}
    for row in rows:
        colour = colours[row]
        labels[colour] = f"{labels[colour].replace('row ', 'rows ')}, {row}" if colour in labels else f"row {row}"
    legend(figure, labels)
    head(figure, title, note)
    return figure


def _pitch_bytes(operand: str, variant: Variant) -> int:
    where = layout()
    if operand == "A":
        return where.a_offset(False, 1, 0)
    natural = variant.b_layout is BLayout.NATURAL
    return where.b_offset(variant.b_layout, False, int(natural), int(not natural))


def _tile_name(operand: str, variant: Variant) -> str:
    if operand == "A":
        return "A[m][k]"
    return "B[k][n]" if variant.b_layout is BLayout.NATURAL else "B transposed, [n][k]"


def load_figure(variant: Variant, operand: str, load: int, swizzles: Sequence[bool] = (False, True)) -> Figure:
    """Load number ``load`` of the first fragment of operand ``"A"`` or ``"B"``: a panel for each swizzle state."""
    shown = {}
    for swizzle in sorted(swizzles):
        loads = kstep_wavefronts(variant, swizzle).loads
        shown[swizzle] = next(x for x in loads if (x.operand, x.fragment, x.load) == (operand, 0, load))
    pitch = _pitch_bytes(operand, variant)
    panels = [Access(x.addresses, x.bytes_per_lane, x.kind, pitch, swizzle) for swizzle, x in shown.items()]
    instruction, kind = next((x.instruction, x.kind) for x in shown.values())  # the swizzle changes neither
    if kind is Kind.LDMATRIX:
        note = "Box: a 16-byte row of an 8×8 tile, with the lane that gives its address. One tile is served at a time."
    else:
        note = "Number: lane. Lanes in one box read the same 4-byte word and share it."
    return _figure(
        panels,
        title=f"{variant.name}, {operand} fragment, load {load}: {instruction} from {_tile_name(operand, variant)}",
        note=f"{note} A bank serves one word in a wavefront. Colour: row of the tile in memory.",
        phase_name="tile",
    )


def store_figure(variant: Variant, operand: str, swizzles: Sequence[bool] = (False, True)) -> Figure:
    """The first warp-wide 16-byte store of a tile of ``"A"`` or ``"B"``: a panel for each swizzle state."""
    panels = []
    for swizzle in sorted(swizzles):
        one = next(x for x in tile_store(variant, swizzle).stores if x.operand == operand)
        width = layout().constants.chunk_bytes
        panels.append(Access(one.addresses, width, Kind.PER_LANE, _pitch_bytes(operand, variant), swizzle))
    return _figure(
        panels,
        title=f"cp.async of 16 bytes a lane into {_tile_name(operand, variant)}",
        note="Box: the 16 bytes of one lane. A quarter warp is served at a time. Colour: row of the tile in memory.",
        phase_name="quarter",
    )
