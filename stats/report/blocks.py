"""What should stand in a generated block today? A mark's attributes in, Markdown out, and the figure files it needs.

A block carries its caption (device, n, clocks, record) and, where the kernels have changed since, a visible stale line.
The trap: a picture drawn by another version of matplotlib differs in bytes but not in content; each file therefore
carries a digest of what it shows, and that is what is compared.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from stats.errors import UserError
from stats.report.figure_data import build_figure, caption_of
from stats.report.figure_style import IMAGE_FORMATS, ImageFormat
from stats.report.freshness import Freshness
from stats.report.json_tables import Document, columns_of, json_table, read_document
from stats.report.marks import Block
from stats.report.model import FigureData, Table
from stats.report.queries import build_table
from stats.report.source import Library, Source
from stats.report.values import parse_row, select_rows, select_value
from stats.tables import render

__all__ = ["Made", "Pages", "Picture", "digest", "make_block"]


@dataclass(frozen=True)
class Picture:
    """A figure file that a block shows: where it lies relative to the page, and how to draw it."""

    file: str
    name: str
    data: FigureData
    caption: str

    @property
    def digest(self) -> str:
        """What it shows, as a hash; stands inside the file."""
        return digest(self.data, self.caption)

    def draw(self) -> bytes:
        """The bytes of the file, by its suffix."""
        from stats.report.figures import image

        fmt: ImageFormat = "svg" if self.file.endswith(".svg") else "png"
        return image(self.name, self.data, self.caption, fmt, digest=self.digest)


@dataclass(frozen=True)
class Made:
    """The content of a block as it should be, whether its sources are still today's, and its picture."""

    content: str
    freshness: Freshness
    picture: Picture | None = None


class Pages:
    """Records and JSON files that the blocks of one page name, each read once."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self._documents: dict[str, Document] = {}

    def document(self, name: str) -> Document:
        if name not in self._documents:
            path = Path(name) if self.library.folder is None else self.library.folder / name
            self._documents[name] = read_document(path, name, self.library.root)
        return self._documents[name]


def _table_of(block: Block, pages: Pages) -> tuple[Table, str, Freshness]:
    attributes = block.attributes
    if attributes["query"] == "json":
        document = pages.document(attributes["record"])
        table = json_table(document, attributes.get("at", ""), attributes.get("columns", ""))
        return table, document.caption, document.freshness
    source = pages.library.source(attributes["record"])
    table = build_table(source, attributes["query"])
    if "columns" in attributes:
        table = dataclasses.replace(table, columns=columns_of(attributes["columns"], table.rows, table.columns))
    return table, source.caption, source.freshness


def make_block(block: Block, pages: Pages) -> Made:
    """What ``block`` should hold. Raises UserError for a record, query, row or column that is not there."""
    if block.kind == "figure":
        return _figure_block(block.attributes, pages.library.source(block.attributes["record"]))
    table, origin, state = _table_of(block, pages)
    row = parse_row(block.attributes.get("row", ""))
    if block.kind == "value":
        text = select_value(table, row, block.attributes["column"], block.attributes.get("spec", ""))
        return Made(f"{text} (stale)" if state.state == "stale" else text, state)
    rows = select_rows(table, row)
    note = block.attributes.get("caption") or table.note
    caption = "; ".join(part for part in (note.rstrip("."), origin) if part)
    return Made(f"\n{_stale_line(state)}{render(table.columns, rows, 'md')}\n<sub>{_sentence(caption)}</sub>\n", state)


def _stale_line(state: Freshness) -> str:
    return f"> **{_sentence(state.line)}**\n\n" if state.line else ""


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + ("" if text.endswith(".") else ".") if text else text


def _figure_block(attributes: Mapping[str, str], source: Source) -> Made:
    file = attributes["file"]
    if not file.endswith(tuple(f".{fmt}" for fmt in IMAGE_FORMATS)):
        raise UserError(f"file={file}: is neither .svg nor .png")
    data = build_figure(source, attributes["query"])
    caption = caption_of(source, data)
    picture = Picture(file, f"{source.record.name}-{attributes['query']}", data, caption)
    text = f"{attributes['caption'].rstrip('.')}; {source.caption}" if attributes.get("caption") else caption
    content = f"\n{_stale_line(source.freshness)}![{data.title}]({file})\n\n<sub>{_sentence(text)}</sub>\n"
    return Made(content, source.freshness, picture)


def digest(data: FigureData, caption: str) -> str:
    """Hash of what a figure shows and of the code that draws it; numbers to six digits, which no drawing resolves."""
    plain = json.dumps([type(data).__name__, _plain(data), caption], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(plain.encode() + _drawing_code()).hexdigest()[:24]


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


@lru_cache(maxsize=1)
def _drawing_code() -> bytes:
    folder = Path(__file__).resolve().parent
    return b"".join(path.read_bytes() for path in sorted(folder.glob("figure_*.py")))
