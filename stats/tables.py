"""One table, four formats: a terminal table, Markdown, CSV, JSON, all from the same columns and rows.

A column says its key, its heading, its unit and how a number is written; rows are plain mappings, so the JSON form
holds the numbers unrounded. The trap: nan in JSON is not JSON, so what was not measured is null there and "–" to a
reader.
"""

from __future__ import annotations

import csv
import io
import math
import re
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from stats.safe_text import csv_text, dumped, markdown_text, safe_text

__all__ = ["FORMATS", "Column", "Format", "csv_cell", "render", "to_json", "told", "wrapped"]

Format = Literal["table", "md", "csv", "json"]
_PROSE_WIDTH, _NARROW_PROSE = 64, 16  # characters of a line; the second where the terminal is too narrow
FORMATS: tuple[Format, ...] = ("table", "md", "csv", "json")


def _not_as_zero(value: float, spec: str) -> str:
    """The number by ``spec``, with up to three digits more where it would read as 0 and is not."""
    text = format(value, spec)
    digits = re.fullmatch(r"([+,]*)\.(\d+)f", spec)
    if digits is None or not value or text.strip("+-0.,"):
        return text
    for more in range(1, 4):
        finer = format(value, f"{digits[1]}.{int(digits[2]) + more}f")
        if finer.strip("+-0.,"):
            return finer
    return format(0.0, spec)


@dataclass(frozen=True)
class Column:
    """One column: ``key`` into the row, ``heading`` for readers (with the unit), ``spec`` a format spec for numbers."""

    key: str
    heading: str
    spec: str = ""
    align: Literal["left", "right"] = "right"
    min_width: int = 0  # a terminal narrower than this does without the column; the other formats always have it

    def text(self, row: Mapping[str, Any]) -> str:
        """The cell as a reader sees it."""
        value = row.get(self.key)
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            return "–"
        if isinstance(value, (int, float)) and not isinstance(value, bool) and self.spec:
            return _not_as_zero(value, self.spec)
        return safe_text(str(value))


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def to_json(value: Any) -> str:
    """Strict JSON (no nan, no inf), indented, keys in the order given."""
    return dumped(_finite(value), indent=2)


def _markdown(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        "| " + " | ".join(markdown_text(column.heading) for column in columns) + " |",
        "|" + "|".join("---" if column.align == "left" else "---:" for column in columns) + "|",
    ]
    lines += ["| " + " | ".join(markdown_text(column.text(row)) for column in columns) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _csv(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([csv_text(column.key) for column in columns])
    for row in rows:
        writer.writerow([csv_cell(row.get(column.key)) for column in columns])
    return out.getvalue()


def csv_cell(value: Any) -> Any:
    """A number as it is, "" for what was not measured, any other value as text that no spreadsheet computes."""
    value = "" if _finite(value) is None else value
    return value if isinstance(value, (int, float)) else csv_text(str(value))


def _prose(text: str, width: int = _PROSE_WIDTH) -> str:
    """A text broken into lines of a readable length: a warning in a column must not widen its table without end."""
    whole = re.sub(" (?=[%±])", "\N{NO-BREAK SPACE}", text)  # a figure stays with its sign
    lines = textwrap.wrap(whole, width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\N{NO-BREAK SPACE}", " ") or text


def _longest(lines: Sequence[str]) -> int:
    return max((len(part) for line in lines for part in line.splitlines()), default=0)


def _narrower(texts: list[list[str]], excess: int) -> list[list[str]]:
    """Columns of prose, each the list of its cells, broken into shorter lines: the widest first, by ``excess`` in all.

    None becomes narrower than _NARROW_PROSE, and a word stays whole.
    """
    widths = [_longest(column) for column in texts]
    stuck = [max(_NARROW_PROSE, *(_longest(cell.split()) for cell in column)) for column in texts]
    while excess > 0:
        room, widest = max((width, i) if width > stuck[i] else (0, i) for i, width in enumerate(widths))
        if room == 0:
            break
        widths[widest] -= 1
        excess -= 1
    return [[_prose(cell, max(1, width)) for cell in column] for column, width in zip(texts, widths, strict=True)]


def _terminal_width() -> int:
    return shutil.get_terminal_size((120, 24)).columns


def wrapped(line: str, hang: int = 2) -> str:
    """A line of text broken at the terminal's width, what follows set ``hang`` columns further in than its start."""
    line = safe_text(line)
    start = len(line) - len(line.lstrip())
    room = max(_terminal_width(), start + hang + 20)
    return textwrap.fill(
        line, room, subsequent_indent=" " * (start + hang), break_long_words=False, break_on_hyphens=False
    )


def told(line: str, fmt: Format) -> str:
    """A line of prose around a table, in which a name steers nothing; ``wrapped`` does the same for a terminal."""
    return markdown_text(line) if fmt == "md" else safe_text(line)


def _terminal(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]], title: str | None) -> str:
    from rich import box
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table

    out = io.StringIO()
    console = Console(file=out, width=_terminal_width(), highlight=False, emoji=False, markup=False)
    columns = [column for column in columns if column.min_width <= console.width]
    cells = [
        [_prose(column.text(row)) if column.align == "left" else column.text(row) for column in columns] for row in rows
    ]

    def table(*, narrow: bool) -> Table:
        padding = (0, 0) if narrow else (0, 0, 0, 1)
        made = Table(
            box=box.SIMPLE_HEAD, padding=padding, pad_edge=False, title=title, title_justify="left", show_edge=False
        )
        for i, column in enumerate(columns):
            # A heading may break between words; a figure broken over two lines would be read as two.
            texts = [text for line in cells for text in line[i].splitlines()]
            width = max(len(text) for text in (*re.split(r"\s|(?<=-)", column.heading), *texts, " "))
            heading = "\n".join(textwrap.wrap(column.heading, width)) if narrow else column.heading
            made.add_column(heading, justify=column.align, no_wrap=True)
        for line in cells:
            made.add_row(*line)
        return made

    unbounded = console.options.update(max_width=10_000)
    shown = table(narrow=False)
    if Measurement.get(console, unbounded, shown).maximum > console.width:
        shown = table(narrow=True)
        excess = Measurement.get(console, unbounded, shown).maximum - console.width
        prose = [i for i, column in enumerate(columns) if column.align == "left"]
        if excess > 0 and prose and cells:
            for i, texts in zip(prose, _narrower([[line[i] for line in cells] for i in prose], excess), strict=True):
                for line, text in zip(cells, texts, strict=True):
                    line[i] = text
            shown = table(narrow=True)
        console.width = max(console.width, Measurement.get(console, unbounded, shown).maximum)
    console.print(shown)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def render(
    columns: Sequence[Column],
    rows: Sequence[Mapping[str, Any]],
    fmt: Format,
    *,
    title: str | None = None,
    extra: Mapping[str, Any] | None = None,
) -> str:
    """The table as text ending in a newline; ``extra`` goes into JSON only, ``title`` on the terminal only."""
    if fmt == "md":
        return _markdown(columns, rows)
    if fmt == "csv":
        return _csv(columns, rows)
    if fmt == "json":
        keys = [column.key for column in columns]
        body = [{key: row.get(key) for key in keys} for row in rows]
        return to_json({**(extra or {}), "rows": body}) + "\n"
    return _terminal(columns, rows, title)
