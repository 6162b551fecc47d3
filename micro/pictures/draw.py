"""Every picture of the layout and the banks, as PNG and SVG: what ``micro-bench banks --figures`` writes.

The trap: matplotlib stamps dates and versions into files; they are left out, so that equal input gives equal bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from micro.model.layout import layout
from micro.model.variants import VARIANTS, BLayout
from micro.pictures.banks import load_figure, store_figure
from micro.pictures.layout import SWIZZLES, fragment_figure, swizzle_figure
from micro.pictures.style import STYLE
from stats.base.errors import UserError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_METADATA: dict[str, dict[str, Any]] = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}


def pictures(variants: Sequence[str], swizzles: Sequence[bool]) -> dict[str, Callable[[], Figure]]:
    """File name without suffix -> how to draw it: fragments, swizzles, then each variant's loads and the stores."""
    where = layout()
    found: dict[str, Callable[[], Figure]] = {"fragments": fragment_figure}
    for name in SWIZZLES:
        found[f"swizzle-{name}"] = lambda name=name: swizzle_figure(name)  # type: ignore[misc]
    for variant in (VARIANTS[name] for name in variants):
        loads = {"A": where.a_loads(variant.read_mode), "B": where.b_loads(variant.read_mode, variant.b_layout)}
        for operand, count in loads.items():
            for load in range(count):
                found[f"banks-{variant.name}-{operand}{load}"] = (
                    lambda v=variant, o=operand, i=load: load_figure(v, o, i, swizzles)  # type: ignore[misc]
                )
        stores = {"store-A": "A", f"store-B-{BLayout(variant.b_layout).name.lower()}": "B"}
        for name, operand in stores.items():
            found.setdefault(name, lambda v=variant, o=operand: store_figure(v, o, swizzles))  # type: ignore[misc]
    return found


def draw_all(folder: Path, variants: Sequence[str], swizzles: Sequence[bool]) -> list[Path]:
    """Write every picture as PNG and SVG into ``folder`` and return the paths; equal input gives equal bytes.

    Raises UserError when the folder cannot be written.
    """
    import matplotlib

    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with matplotlib.rc_context(STYLE):
            for name, draw in pictures(variants, swizzles).items():
                figure = draw()
                for suffix, metadata in _METADATA.items():
                    path = folder / f"{name}.{suffix}"
                    figure.savefig(path, dpi=150, metadata=metadata, facecolor="white")
                    written.append(path)
    except OSError as error:
        raise UserError(f"{folder}: pictures cannot be written ({error.strerror})") from None
    return written
