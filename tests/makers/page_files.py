"""Templates of pages in a folder, with short names for figures that take no statistics to make."""

from __future__ import annotations

import json
from pathlib import Path

FIGURES = """\
tables:
  arms: {file: arms.json, at: arms}
  pairs: {file: arms.json, at: pairs, by: [a, b]}
figures:
  run: {record: gemm.jsonl, figure: run, file: docs/run.svg}
given:
  peak: {text: 989 TFLOPS, source: data sheet}
"""
ARMS = {
    "arms": [
        {"arm": arm, "cells": 4, "time_us": f"{time_us} ±0.01"}
        for arm, time_us in (("A1", 5.11), ("A2", 4.82), ("A2L", 4.71), ("A3", 4.56))
    ],
    "pairs": [
        {"a": "A1", "b": "A3", "cycles_percent": 6.1083, "disagreement": None},
        {"a": "A2L", "b": "A3", "cycles_percent": 0.3991, "disagreement": None},
    ],
}


def put_pages(folder: Path, figures: str = FIGURES, **templates: str) -> Path:
    """Write templates (``readme`` is README.md's), figures.yaml and arms.json into ``folder``, which is returned."""
    pages = folder / "docs" / "pages"
    pages.mkdir(parents=True, exist_ok=True)
    (pages / "figures.yaml").write_text(figures, encoding="utf-8")
    if "arms.json" in figures:
        (folder / "arms.json").write_text(json.dumps(ARMS), encoding="utf-8")
    for name, text in templates.items():
        (pages / ("README.md" if name == "readme" else f"{name}.md")).write_bytes(text.encode())
    return folder
