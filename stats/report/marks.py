"""Where in a page do generated blocks stand? Markdown text in, blocks with their marks out.

``<!-- bench:table record=results/run.jsonl query=comparisons -->`` … ``<!-- /bench:table -->``; the kinds are in KINDS.
What stands inside code (fences, backticks) is an example and no mark. The traps: a missing end mark would swallow the
text up to the next one, so marks that are missing, doubled or nested are errors that name the line; and a page is never
changed before all of its marks are understood.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from stats.errors import UserError

__all__ = ["KINDS", "Block", "line_of", "parse_marks", "without_code"]

# Attributes that each kind must have, and those that it may have.
KINDS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "table": (("record", "query"), ("row", "columns", "at", "caption")),
    "figure": (("record", "query", "file"), ("caption",)),
    "value": (("record", "query", "column"), ("row", "spec", "at")),
    "given": ((), ("source",)),  # a figure that is no measurement: a specification, a claim under test
}

_OPENING = re.compile(r"<!--[ \t]*(/?)[ \t]*bench:")
_WORDS = re.compile(r"\s*([\w-]*)(.*)", re.DOTALL)
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$")
_CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")


@dataclass(frozen=True)
class Block:
    """One generated block: its kind and attributes, the line of its begin mark, and where its content lies."""

    kind: str
    attributes: Mapping[str, str]
    line: int
    start: int
    end: int

    @property
    def title(self) -> str:
        """How messages call it: ``table comparisons of results/run.jsonl``."""
        query, record = self.attributes.get("query", ""), self.attributes.get("record", "")
        what = f"{query} {self.attributes['column']}".strip() if self.kind == "value" else query
        return f"{self.kind} {what} of {record}"


@dataclass(frozen=True)
class _Mark:
    closes: bool
    kind: str
    rest: str
    line: int
    start: int
    end: int


def line_of(text: str, place: int) -> int:
    """Number of the line that holds ``place``, counted from 1."""
    return text.count("\n", 0, place) + 1


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


def _marks(text: str, name: str) -> list[_Mark]:
    seen = without_code(text)
    found = []
    for opening in _OPENING.finditer(seen):
        line = line_of(text, opening.start())
        end = seen.find("-->", opening.end())
        another = seen.find("<!--", opening.end())
        if end < 0 or 0 <= another < end:
            raise UserError(f"{name}:{line}: the mark has no '-->'; close the comment")
        words = _WORDS.match(text[opening.end() : end])
        assert words is not None  # both groups may be empty
        found.append(_Mark(bool(opening[1]), words[1], words[2], line, opening.start(), end + 3))
    return found


def _attributes(mark: _Mark, name: str) -> dict[str, str]:
    where = f"{name}:{mark.line}: bench:{mark.kind}"
    try:
        parts = shlex.split(mark.rest)
    except ValueError as error:
        raise UserError(f"{where}: {str(error).lower()}; close the quotes") from None
    found: dict[str, str] = {}
    required, optional = KINDS[mark.kind]
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals:
            raise UserError(f"{where}: {part!r} is not key=value; quote values that hold spaces")
        if key in found:
            raise UserError(f"{where}: {key} is given twice")
        if key not in required + optional:
            allowed = ", ".join(required + optional)
            raise UserError(f"{where}: {key} is unknown; it takes {allowed}")
        found[key] = value
    for key in required:
        if not found.get(key):
            raise UserError(f"{where}: lacks {key}=…")
    return found


def parse_marks(text: str, name: str) -> list[Block]:
    """The generated blocks of ``text`` in order; ``name`` is what errors call the page.

    Raises UserError, naming the line, for a mark that is missing, doubled, nested, misspelt or lacks an attribute.
    """
    blocks: list[Block] = []
    opened: _Mark | None = None
    for mark in _marks(text, name):
        where = f"{name}:{mark.line}"
        if mark.kind not in KINDS:
            raise UserError(f"{where}: bench:{mark.kind} is unknown; the kinds are {', '.join(KINDS)}")
        if mark.closes:
            if opened is None:
                raise UserError(
                    f"{where}: /bench:{mark.kind} ends nothing: its begin mark is missing, or it is doubled"
                )
            if mark.kind != opened.kind:
                raise UserError(f"{where}: /bench:{mark.kind} ends the bench:{opened.kind} of line {opened.line}")
            if mark.rest.strip():
                raise UserError(f"{where}: /bench:{mark.kind} takes no attributes")
            blocks.append(Block(opened.kind, _attributes(opened, name), opened.line, opened.end, mark.start))
            opened = None
        elif opened is not None:
            raise UserError(
                f"{where}: bench:{mark.kind} begins inside the bench:{opened.kind} of line {opened.line}: "
                "its end mark is missing, or one of them is nested or doubled"
            )
        else:
            opened = mark
    if opened is not None:
        raise UserError(f"{name}:{opened.line}: bench:{opened.kind} has no end mark <!-- /bench:{opened.kind} -->")
    return blocks
