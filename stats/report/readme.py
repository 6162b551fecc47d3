"""Rebuild a page's generated blocks from records, or say which of them are no longer what the records give.

All marks are parsed and all blocks made before anything is written; figures go first and the page last, each whole or
not at all. The trap: a check that only says "differs" sends its reader to a diff tool, so it says which block, on which
line, and how.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stats.errors import BenchError, UserError, unreadable
from stats.provenance import PACKAGE_ROOT
from stats.report.blocks import Made, Pages, make_block
from stats.report.files import write_whole
from stats.report.marks import Block, parse_marks
from stats.report.source import Library

__all__ = ["Finding", "Page", "read_page"]

DIFF_LINES = 24


@dataclass(frozen=True)
class Finding:
    """One block: is it what it should be, and if not, how does it differ; ``stale`` is its stale line."""

    block: Block
    differs: bool
    detail: str
    stale: str | None


@dataclass(frozen=True)
class Page:
    """A page read and every block of it made anew; nothing is written before ``write``."""

    path: Path
    text: str
    newline: str
    blocks: Sequence[Block]
    made: Sequence[Made]

    def rebuilt(self) -> str:
        """The text of the page with every block as it should be."""
        parts, place = [], 0
        for block, made in zip(self.blocks, self.made, strict=True):
            parts += [self.text[place : block.start], self._content(made)]
            place = block.end
        return "".join(parts) + self.text[place:]

    def _content(self, made: Made) -> str:
        return made.content.replace("\n", self.newline)

    def findings(self) -> list[Finding]:
        """What ``--check`` says of each block."""
        found = []
        for block, made in zip(self.blocks, self.made, strict=True):
            now, should = self.text[block.start : block.end], self._content(made)
            detail = "" if now == should else _difference(block, now, should)
            if not detail and made.picture is not None:
                detail = self._picture_detail(made)
            stale = made.freshness.line if made.freshness.state == "stale" else None
            found.append(Finding(block, bool(detail), detail, stale))
        return found

    def _picture_detail(self, made: Made) -> str:
        assert made.picture is not None
        path = self.path.parent / made.picture.file
        try:
            content = path.read_bytes()
        except OSError as error:
            return f"{made.picture.file} cannot be read ({error.strerror})"
        return "" if made.picture.digest.encode() in content else f"{made.picture.file} shows other figures"

    def write(self) -> list[Path]:
        """Write the figures that show something else, then the page; the paths that changed. Raises UserError."""
        written = []
        for made in self.made:
            if made.picture is not None and self._picture_detail(made):
                path = self.path.parent / made.picture.file
                write_whole(path, made.picture.draw())
                written.append(path)
        if write_whole(self.path, self.rebuilt().encode("utf-8")):
            written.append(self.path)
        return written


def _difference(block: Block, now: str, should: str) -> str:
    if block.kind == "value":
        return f"the page says {now!r}, the record gives {should!r}"
    lines = list(difflib.unified_diff(now.splitlines(), should.splitlines(), "page", "record", n=0, lineterm=""))[2:]
    if not lines:
        return "only line ends differ"
    more = [f"… and {len(lines) - DIFF_LINES} lines more"] if len(lines) > DIFF_LINES else []
    return "\n".join(lines[:DIFF_LINES] + more)


def read_page(path: Path, *, root: Path = PACKAGE_ROOT) -> Page:
    """Read a page and make its blocks; records are named relative to the page's folder.

    Raises UserError, with the page's line, for bad marks and for whatever a block asks for that is not there.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise unreadable(path, error) from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not UTF-8 text; give a Markdown page") from None
    blocks = [block for block in parse_marks(text, str(path)) if block.kind != "given"]
    pages = Pages(Library(path.parent, root))
    made = []
    for block in blocks:
        try:
            made.append(make_block(block, pages))
        except BenchError as error:
            raise type(error)(f"{path}:{block.line}: {error}") from None
    return Page(path, text, "\r\n" if "\r\n" in text else "\n", blocks, made)
