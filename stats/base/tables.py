"""One table, four formats: a terminal table, Markdown, CSV, JSON, all from the same columns and rows.

A column says its key, its heading, its unit and how a number is written; rows are plain mappings, so the JSON form
holds the numbers unrounded. The trap: nan in JSON is not JSON, so what was not measured is null there and "–" to a
reader.
"""

from __future__ import annotations

import csv
import io
import math
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from stats.base.safe_text import csv_text, dumped, markdown_text, safe_text

if TYPE_CHECKING:
    from rich.table import Table


Format = Literal["table", "md", "csv", "json"]
_PROSE_WIDTH, _NARROW_PROSE = 64, 16  # characters of a line; the second where the terminal is too narrow
_IN_NAMES = re.compile(r"(?<=[/+])(?=[^/+])")  # where a name that is too long may break
_HOLD, _BREAK = "\N{NO-BREAK SPACE}", "\N{ZERO WIDTH SPACE}"  # inside a text that is being broken into lines
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
    min_width: int = 0  # a terminal narrower than this may do without the column; the other formats always have it
    short: str = ""  # the heading where the terminal has no room for the usual one
    legend: str = ""  # what the column means, told below the table on a terminal that shows it

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


def _prose(text: str, width: int = _PROSE_WIDTH, *, in_names: bool = False) -> str:
    """A text broken into lines of a readable length: a warning in a column must not widen its table without end."""
    breaks = "" if not in_names else _BREAK
    told = re.sub(rf"\S{{{width + 1},}}", lambda name: _IN_NAMES.sub(breaks, name[0]), _bound(text))
    return _filled(told, width) or text


def _bound(text: str) -> str:
    """The text with every figure bound to its sign."""
    return re.sub(" (?=[%±])", _HOLD, text)


def _filled(text: str, width: int, hang: str = "") -> str:
    filler = textwrap.TextWrapper(width, subsequent_indent=hang, break_long_words=False, break_on_hyphens=False)
    filler.wordsep_simple_re = re.compile(rf"([\t ]+|(?<={_BREAK}))")
    return filler.fill(text).replace(_HOLD, " ").replace(_BREAK, "")


def _longest(lines: Sequence[str]) -> int:
    return max((len(part) for line in lines for part in line.splitlines()), default=0)


def _narrower(texts: list[list[str]], excess: int, *, in_names: bool) -> list[list[str]]:
    """Columns of prose, each the list of its cells, broken into shorter lines: the widest first, by ``excess`` in all.

    None becomes narrower than _NARROW_PROSE, and a word stays whole, unless it may break ``in_names``.
    """
    widths = [_longest(column) for column in texts]
    words = re.compile(r"[\t ]+" + (f"|{_IN_NAMES.pattern}" if in_names else ""))
    stuck = [max(_NARROW_PROSE, *(_longest(words.split(_bound(cell))) for cell in column)) for column in texts]
    while excess > 0:
        room, widest = max((width, i) if width > stuck[i] else (0, i) for i, width in enumerate(widths))
        if room == 0:
            break
        widths[widest] -= 1
        excess -= 1
    return [
        [_prose(cell, max(1, width), in_names=in_names) for cell in column]
        for column, width in zip(texts, widths, strict=True)
    ]


def _terminal_width() -> int:
    return shutil.get_terminal_size((120, 24)).columns


def wrapped(line: str, hang: int = 2, width: int | None = None) -> str:
    """A line of text broken at the terminal's width, what follows set ``hang`` columns further in than its start."""
    line = safe_text(line)
    start = len(line) - len(line.lstrip())
    room = max(width or _terminal_width(), start + hang + 20)
    return _filled(_bound(line), room, " " * (start + hang))


def fitted(line: str, hang: int = 2) -> str:
    """As ``wrapped`` on a terminal, or where COLUMNS says how wide it is; in a pipe a line stays one line."""
    return wrapped(line, hang) if sys.stdout.isatty() or os.environ.get("COLUMNS") else safe_text(line)


def told(line: str, fmt: Format) -> str:
    """A line of prose around a table, in which a name steers nothing: wrapped on a terminal, escaped in Markdown."""
    return wrapped(line) if fmt == "table" else markdown_text(line)


def _measure(table: Table) -> int:
    from rich.console import Console
    from rich.measure import Measurement

    console = Console(file=io.StringIO(), width=10_000)
    return Measurement.get(console, console.options, table).maximum


def _table(columns: Sequence[Column], cells: list[list[str]], *, narrow: bool) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    padding = (0, 0) if narrow else (0, 0, 0, 1)
    made = Table(box=box.SIMPLE_HEAD, padding=padding, pad_edge=False, show_edge=False)
    for i, column in enumerate(columns):
        # A heading may break between words; a figure broken over two lines would be read as two.
        texts = [text for line in cells for text in line[i].splitlines()]
        heading = (narrow and column.short) or column.heading
        width = max(len(text) for text in (*re.split(r"\s|(?<=-)", heading), *texts, " "))
        made.add_column(
            "\n".join(textwrap.wrap(heading, width)) if narrow else heading, justify=column.align, no_wrap=True
        )
    for line in cells:
        made.add_row(*map(Text, line))  # whose brackets are no markup
    return made


def _laid_out(
    columns: Sequence[Column], rows: Sequence[Mapping[str, Any]], room: int, *, in_names: bool = False
) -> tuple[Table, int]:
    """The table and its width: whole where there is room, else with broken headings, else with prose in more lines."""
    cells = [
        [_prose(column.text(row)) if column.align == "left" else column.text(row) for column in columns] for row in rows
    ]
    for narrow in (False, True):
        shown = _table(columns, cells, narrow=narrow)
        width = _measure(shown)
        if width <= room:
            return shown, width
    prose = [i for i, column in enumerate(columns) if column.align == "left"]
    if prose and cells:
        texts = _narrower([[line[i] for line in cells] for i in prose], width - room, in_names=in_names)
        for i, column in zip(prose, texts, strict=True):
            for line, text in zip(cells, column, strict=True):
                line[i] = text
        shown = _table(columns, cells, narrow=True)
    return shown, _measure(shown)


def _parts(columns: list[Column], rows: Sequence[Mapping[str, Any]], room: int) -> list[Table]:
    """The columns as several tables, each with the leading columns, which name its rows; none where one is too wide."""
    names = next((i for i, column in enumerate(columns) if i and column.align == "right"), 1)
    for in_names in (False, True):
        parts: list[list[Column]] = []
        for column in columns[names:]:
            if not parts or _laid_out([*parts[-1], column], rows, room, in_names=in_names)[1] > room:
                parts.append(columns[:names])
            parts[-1] = [*parts[-1], column]
        made = [_laid_out(part, rows, room, in_names=in_names) for part in parts]
        if made and all(width <= room for _, width in made):
            return [table for table, _ in made]
    return []


def _terminal(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]], title: str | None) -> str:
    """The table within the terminal's width.

    What gives way, in this order: headings and prose, which take more lines; columns with a ``min_width``, which a
    line below names; names, which break after a slash; the table, whose columns go into several below each other.
    """
    from rich.console import Console

    room, kept, out = _terminal_width(), list(columns), io.StringIO()
    shown, width = _laid_out(kept, rows, room)
    while width > room and (spare := [column for column in kept if column.min_width > room]):
        kept.remove(max(reversed(spare), key=lambda column: column.min_width))
        shown, width = _laid_out(kept, rows, room)
    if width > room:
        shown, width = _laid_out(kept, rows, room, in_names=True)
    tables = [shown]
    if width > room and (parts := _parts(list(columns), rows, room)):
        kept, tables = list(columns), parts
    for i, table in enumerate(tables):
        console = Console(file=out, width=max(room, _measure(table)), highlight=False, emoji=False)
        console.print(*([""] if i else []), table, sep="\n")
    text = f"{wrapped(title)}\n" if title else ""
    text += "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
    gone = [column for column in columns if column not in kept]
    below = ["; ".join(f"{column.heading}: {column.legend}" for column in kept if column.legend)]
    if gone:
        names = "; ".join(dict.fromkeys(column.heading for column in gone))
        below.append(f"more columns from {max(column.min_width for column in gone)} columns on: {names}")
    below = [wrapped(line) + "\n" for line in below if line]
    return "\n".join([text, "".join(below)]) if below else text


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
