"""Which figures in a page's prose come from nowhere, and which marks tear a paragraph? Text in, lines to mend out.

A number with a unit of measurement belongs between ``bench:value`` marks, or between ``bench:given`` marks when it is
no measurement of this project (a specification, a claim under test). The trap: only numbers with a unit can be told
from ordinary ones, so this finds what was forgotten and proves nothing about the rest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from stats.report.marks import line_of, parse_marks, without_code

__all__ = ["Untraced", "breaks_paragraph", "untraced"]

UNITS = (
    "%", "×", "TFLOPS", "GFLOPS", "GB/s", "TB/s", "B/clk/SM", "B/clk", "B/cycle", "cycles", "cycle", "ms", "µs", "us",
    "ns", "s", "MHz", "GHz", "W", "°C",
)  # fmt: skip
_NUMBER = r"[−+±-]?\d(?:[\d.,]*\d)?"
_FIGURE = re.compile(
    rf"(?<![\w.]){_NUMBER}(?:\s?[–-]\s?{_NUMBER})?[ \u00a0]?(?:{'|'.join(re.escape(unit) for unit in UNITS)})(?![\w/])"
)


@dataclass(frozen=True)
class Untraced:
    """A figure outside every mark, and its line."""

    line: int
    text: str


def untraced(text: str, name: str) -> list[Untraced]:
    """Figures of ``text`` that stand outside marks, code and HTML comments. Raises UserError for bad marks."""
    seen = list(without_code(text))
    for block in parse_marks(text, name):
        for place in range(block.start, block.end):
            if seen[place] not in "\r\n":
                seen[place] = " "
    plain = re.sub(r"<!--.*?-->", lambda comment: re.sub(r"[^\r\n]", " ", comment[0]), "".join(seen), flags=re.DOTALL)
    return [Untraced(line_of(text, found.start()), found[0]) for found in _FIGURE.finditer(plain)]


_OPENS_LINE = re.compile(r"(?<=\S\n)[ >]*<!-- bench:(?:value|given)\b")


def breaks_paragraph(text: str) -> list[int]:
    """Lines inside a paragraph of ``text`` that open with a value's mark: Markdown takes them for HTML, and what stands
    around them is no paragraph any more (CommonMark, HTML blocks, kind 2).
    """
    return [line_of(text, found.end()) for found in _OPENS_LINE.finditer("".join(without_code(text)))]
