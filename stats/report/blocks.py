"""What should a field of a page become today? A named table or figure in, Markdown out, and the file it needs.

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

from stats.base.errors import UserError
from stats.base.tables import render, told
from stats.record.freshness import Freshness
from stats.report.figures.data import build_figure, caption_of
from stats.report.figures.style import IMAGE_FORMATS, ImageFormat
from stats.report.model import FigureData, Table
from stats.report.source import Source
from stats.report.values import select_rows


@dataclass(frozen=True)
class Picture:
    """A figure file that a page shows: where it lies, and how to draw it."""

    path: Path
    name: str
    data: FigureData
    caption: str

    @property
    def digest(self) -> str:
        """What it shows, as a hash; stands inside the file."""
        return digest(self.data, self.caption)

    def draw(self) -> bytes:
        """The bytes of the file, by its suffix."""
        from stats.report.figures.draw import image

        fmt: ImageFormat = "svg" if self.path.suffix == ".svg" else "png"
        return image(self.name, self.data, self.caption, fmt, digest=self.digest)


@dataclass(frozen=True)
class Made:
    """What a field becomes, whether its sources are still today's, its picture; a block stands on a line of its own."""

    content: str
    freshness: Freshness
    picture: Picture | None = None
    block: bool = True


def table_block(table: Table, where: Mapping[str, str], caption: str, origin: str, state: Freshness) -> Made:
    """A table and what it is. Raises UserError for rows that are not there."""
    rows = select_rows(table, where)
    text = "; ".join(part for part in ((caption or table.note).rstrip("."), origin) if part)
    return Made(f"{_stale_line(state)}{render(table.columns, rows, 'md')}\n<sub>{_sentence(text)}</sub>", state)


def figure_block(source: Source, figure: str, file: str, link: str, folder: Path, caption: str) -> Made:
    """A figure, linked as ``link``, its file relative to ``folder``. Raises UserError for one that is not there."""
    if not file.endswith(tuple(f".{fmt}" for fmt in IMAGE_FORMATS)):
        raise UserError(f"file {file}: is neither .svg nor .png")
    data = build_figure(source, figure)
    full = caption_of(source, data)
    picture = Picture(folder / file, f"{source.record.name}-{figure}", data, full)
    text = f"{caption.rstrip('.')}; {source.caption}" if caption else full
    title = told(data.title, "md")
    content = f"{_stale_line(source.freshness)}![{title}]({link})\n\n<sub>{_sentence(text)}</sub>"
    return Made(content, source.freshness, picture)


def _stale_line(state: Freshness) -> str:
    return f"> **{_sentence(state.line)}**\n\n" if state.line else ""


def _sentence(text: str) -> str:
    whole = text[0].upper() + text[1:] + ("" if text.endswith(".") else ".") if text else text
    return told(whole, "md")


def digest(data: FigureData, caption: str) -> str:
    """Hash of what a figure shows and of the code that draws it; numbers to six digits, which no drawing resolves."""
    plain = json.dumps([type(data).__name__, _plain(data), caption], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(plain.encode("utf-8", "surrogatepass") + _drawing_code()).hexdigest()[:24]


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
    folder = Path(__file__).resolve().parent / "figures"
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))
