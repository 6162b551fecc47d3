"""A table out of any JSON or JSON Lines file: what is not a record of cells (counters, verdicts on claims, counts).

The caller says where the rows lie and which columns are wanted; nothing is computed. The trap: such a file can go stale
like a record, so a ``source_hash`` with its ``sources`` and ``build_flags`` at its top level is held against today's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stats.base.errors import UserError
from stats.base.tables import Column
from stats.record.freshness import Freshness, freshness
from stats.record.provenance import PACKAGE_ROOT
from stats.record.reader import read_json
from stats.report.model import Table
from stats.report.values import formatted


@dataclass(frozen=True)
class Document:
    """The content of a JSON file, or the list of the lines of a JSON Lines file; facts from its top level or header."""

    name: str
    content: Any
    freshness: Freshness

    @property
    def caption(self) -> str:
        """Device, if the file names one, and the file."""
        top = _top(self.content)
        device = top.get("device")
        where = device.get("name") if isinstance(device, Mapping) else device
        source = f", sources {top['source_hash']}" if isinstance(top.get("source_hash"), str) else ""
        return (f"{where}; " if where else "") + f"file {self.name}{source}"


def _top(content: Any) -> Mapping[str, Any]:
    if isinstance(content, list) and content and isinstance(content[0], Mapping) and content[0].get("kind") == "header":
        return content[0]
    return content if isinstance(content, Mapping) else {}


def read_document(path: Path, name: str, root: Path = PACKAGE_ROOT) -> Document:
    """Read a ``.json`` or ``.jsonl`` file. Raises UserError for a file that cannot be read or is not JSON."""
    content = read_json(path, "name a JSON file")
    top = _top(content)
    sources, flags = top.get("sources") or [], top.get("build_flags") or []
    if not isinstance(sources, list) or not isinstance(flags, list):
        raise UserError(f"{name}: sources and build_flags must be lists")
    state = freshness(str(top.get("source_hash", "none")), [*map(str, sources)], [*map(str, flags)], root)
    return Document(name, content, state)


def _rows(document: Document, at: str) -> list[dict[str, Any]]:
    found = document.content
    for key in (part for part in at.split("/") if part):
        if isinstance(found, Mapping) and key in found:
            found = found[key]
            continue
        there = ", ".join(found) if isinstance(found, Mapping) else "no keys"
        raise UserError(f"{document.name}: at={at}: no {key!r}; there is {there}")
    if isinstance(found, Mapping) and found and all(isinstance(value, Mapping) for value in found.values()):
        found = [{"key": key, **value} for key, value in found.items()]
    elif isinstance(found, Mapping):
        found = [found]
    if not isinstance(found, list) or not all(isinstance(row, Mapping) for row in found):
        raise UserError(f"{document.name}: at={at or '/'}: not a list of objects; name one that is")
    return [_flat(row) for row in found if row.get("kind") != "header"]


def _flat(row: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested objects as dotted keys, so that a column can name ``load.mean``."""
    flat: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        elif isinstance(value, list):
            flat[f"{prefix}{key}"] = ", ".join(str(item) for item in value)
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def columns_of(text: str, rows: Sequence[Mapping[str, Any]], known: Sequence[Column] = ()) -> list[Column]:
    """``key|heading|format; key; …`` as columns: keys of ``rows``, with the heading of a ``known`` column by default.

    Raises UserError for a key that no row has, and for a format that does not fit the column's values.
    """
    keys = list(dict.fromkeys(key for row in rows for key in row))
    by_key = {column.key: column for column in known}
    found = []
    for part in text.split(";"):
        key, _, rest = part.strip().partition("|")
        heading, _, spec = rest.partition("|")
        if key not in keys and key not in by_key:
            raise UserError(f"columns: no {key!r}; there are {', '.join(keys)}")
        usual = by_key.get(key, _column(key, rows))
        for value in [row[key] for row in rows if row.get(key) is not None] or [1.0]:
            formatted(value, spec)
        found.append(Column(key, heading or usual.heading, spec or usual.spec, usual.align))
    return found


def _column(key: str, rows: Sequence[Mapping[str, Any]]) -> Column:
    values = [row.get(key) for row in rows if row.get(key) is not None]
    number = bool(values) and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values)
    return Column(key, key, align="right" if number else "left")


def json_table(document: Document, at: str = "", columns: str = "") -> Table:
    """The rows at ``at`` (``claims`` or ``micro/variants``); all their keys, or the ``columns`` that were asked for."""
    rows = _rows(document, at)
    keys = list(dict.fromkeys(key for row in rows for key in row))
    chosen = columns_of(columns, rows) if columns else [_column(key, rows) for key in keys]
    return Table(at.rpartition("/")[2] or document.name, chosen, rows)
