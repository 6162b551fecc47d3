"""Which figures in the prose of a template come from nowhere? Its pieces in, lines to mend out.

A number with a unit of measurement belongs in a field: of a record, or ``given.NAME`` when it is no measurement of this
project (a specification, a claim under test). The trap: only numbers with a unit can be told from ordinary ones, so
this finds what was forgotten and proves nothing about the rest.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from stats.report.template import Piece

UNITS = (
    "%", "×", "TFLOPS", "GFLOPS", "GB/s", "TB/s", "B/clk/SM", "B/clk", "B/cycle", "cycles", "cycle", "ms", "µs", "us",
    "ns", "s", "MHz", "GHz", "W", "°C", "per cent",
)  # fmt: skip
_NUMBER = r"[−+±-]?\d(?:[\d.,]*\d)?"
_FIGURE = re.compile(
    rf"(?<![\w.]){_NUMBER}(?:\s?[–-]\s?{_NUMBER})?[ \u00a0]?(?:{'|'.join(re.escape(unit) for unit in UNITS)})(?![\w/])"
)
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$")
_CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")


@dataclass(frozen=True)
class Untraced:
    """A figure outside every field, and its line."""

    line: int
    text: str


def without_code(text: str) -> str:
    """``text`` with everything inside fences and code spans blanked, every other character in its place."""
    lines, fence = [], ""
    for line in text.splitlines(keepends=True):
        found = _FENCE.match(line.rstrip("\r\n"))
        if fence:
            lines.append(re.sub(r"[^\r\n]", " ", line))
            if found and found[1][0] == fence[0] and len(found[1]) >= len(fence) and not found[2].strip():
                fence = ""
        elif found and not (found[1][0] == "`" and "`" in found[2]):
            fence = found[1]
            lines.append(re.sub(r"[^\r\n]", " ", line))
        else:
            lines.append(_CODE_SPAN.sub(lambda span: " " * len(span[0]), line))
    return "".join(lines)


def untraced(pieces: Sequence[Piece]) -> list[Untraced]:
    """Figures that stand in the text of a template, outside fields, code and comments."""
    text = ""
    for piece in pieces:
        text += "\n" * (piece.line - 1 - text.count("\n"))  # lines of a field, of a comment
        text += piece.text if piece.kind == "text" else " "
    comment = re.compile(r"<!--.*?-->", re.DOTALL)
    plain = comment.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), without_code(text))
    return [Untraced(text.count("\n", 0, found.start()) + 1, found[0]) for found in _FIGURE.finditer(plain)]
