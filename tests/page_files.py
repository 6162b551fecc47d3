"""Templates of pages in a folder, with short names for the figures of a record beside them."""

from __future__ import annotations

from pathlib import Path

FIGURES = """\
tables:
  arms: {record: gemm.jsonl, table: arms}
  pairs: {record: gemm.jsonl, table: comparisons, by: [a, b]}
figures:
  run: {record: gemm.jsonl, figure: run, file: docs/run.svg}
given:
  peak: {text: 989 TFLOPS, source: data sheet}
"""


def put_pages(folder: Path, figures: str = FIGURES, **templates: str) -> Path:
    """Write the templates (``readme`` is README.md's) and figures.yaml into ``folder``, which is returned."""
    pages = folder / "docs" / "pages"
    pages.mkdir(parents=True, exist_ok=True)
    (pages / "figures.yaml").write_text(figures, encoding="utf-8")
    for name, text in templates.items():
        (pages / ("README.md" if name == "readme" else f"{name}.md")).write_bytes(text.encode())
    return folder
