"""What have others published, and how far are our figures from theirs?

The figures, each with its source and the kind of source, are in ``published_figures.yaml``; this puts ours beside them
and says in words what a difference means. Figures of the same silicon are held to 3 %; those of another chip are shown
for orientation. The trap: a number from another method (one warp's rate, say) is another quantity, whatever its unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from micro.bench.instructions.results import Point
from stats.base.tables import Column
from stats.record.schema import Device

PUBLISHED = Path(__file__).resolve().parent / "published_figures.yaml"
AGREEMENT_PERCENT = 3.0
COLUMNS = [
    Column("what", "figure", align="left"),
    Column("gpu", "theirs on", align="left"),
    Column("value", "theirs", ".2f"),
    Column("ours", "ours", ".2f"),
    Column("difference_percent", "difference %", "+.1f"),
    Column("verdict", "in words", align="left"),
    Column("source", "source", align="left"),
    Column("kind", "kind of source", align="left"),
]
_CHIPS = {"GH200": "GH100", "H100": "GH100", "H200": "GH100", "H800": "GH100", "A100": "GA100", "B200": "GB100"}


def chip_of(device: Device | None) -> str | None:
    """The silicon of a device by its name, None where it is not on file."""
    name = device.name if device else ""
    return next((chip for model, chip in _CHIPS.items() if model in name), None)


def load_published() -> list[dict[str, Any]]:
    """The published figures, in the order of the file."""
    import yaml

    figures: list[dict[str, Any]] = yaml.safe_load(PUBLISHED.read_text(encoding="utf-8"))["figures"]
    return figures


def _ours(figure: dict[str, Any], points: Sequence[Point], device: Device | None) -> float | None:
    same = [
        p for p in points if (p.facts["instruction"], p.facts["pattern"]) == (figure["instruction"], figure["pattern"])
    ]
    if "warps" in figure:
        same = [point for point in same if point.facts["warps"] == figure["warps"]]
    if figure["quantity"] == "latency_cycles":
        return next((point.cycles.mean for point in same if point.facts["latency"]), None)
    if not same:
        return None
    if figure["quantity"] == "bytes_per_clk_per_sm":
        return max(float(point.facts["bytes_per_instruction"]) / point.cycles.mean for point in same)
    if figure["quantity"] == "fma_per_clk_per_sm":
        return max(point.fma_per_clk or 0.0 for point in same)
    if figure["quantity"] == "tflops" and device is not None:
        best = max(same, key=lambda point: point.fma_per_clk or 0.0)
        return 2 * (best.fma_per_clk or 0.0) * device.sm_count * best.clock_mhz * 1e-6
    return None


def _verdict(figure: dict[str, Any], ours: float | None, difference_percent: float | None, chip: str | None) -> str:
    if figure["quantity"] == "one_warp_cycles":
        return "another quantity (one warp's rate): nothing of ours to hold against it"
    if ours is None or difference_percent is None:
        return "not measured in this run"
    if figure["chip"] != chip:
        return "another chip: for orientation, agreement is not expected"
    if abs(difference_percent) <= AGREEMENT_PERCENT:
        return f"reproduced within {AGREEMENT_PERCENT:.0f} %"
    return f"differs; {figure['note']}" if "note" in figure else "differs; not explained"


def published_rows(points: Sequence[Point], device: Device | None) -> list[dict[str, Any]]:
    """Theirs beside ours, one row per published figure."""
    rows = []
    for figure in load_published():
        ours = _ours(figure, points, device)
        difference = None if ours is None else 100 * (ours / figure["value"] - 1)
        at = f", {figure['warps']} warps" if "warps" in figure else ""
        how = f" ({figure['method']})" if "method" in figure else ""
        rows.append(
            {
                "what": f"{figure['instruction']} {figure['pattern']}{at}, {figure['quantity']}{how}",
                "gpu": figure["gpu"],
                "value": float(figure["value"]),
                "ours": ours,
                "difference_percent": difference,
                "verdict": _verdict(figure, ours, difference, chip_of(device)),
                "source": figure["source"],
                "kind": figure["kind"],
            }
        )
    return rows
