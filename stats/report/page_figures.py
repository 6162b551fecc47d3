"""Which figures may the templates of pages name? ``docs/pages/figures.yaml`` in, names and what they stand for out.

A table is one of a record (``record`` and ``table``) or the rows of a JSON file (``file`` and ``at``); its rows are
named by the columns ``by``. What is no measurement is ``given`` with its source. Records and files are read once, when
a field first asks for them. The trap: a name that could mean two things, so those that templates know are refused.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from stats.base.config import ConfigModel, load_config
from stats.base.errors import UserError
from stats.record.freshness import Freshness
from stats.record.provenance import PACKAGE_ROOT
from stats.report.blocks import Made, figure_block, table_block
from stats.report.commands import commands_block
from stats.report.json_tables import Document, columns_of, json_table, read_document
from stats.report.model import Table
from stats.report.queries import build_table
from stats.report.source import Library
from stats.report.values import Rows

RESERVED = ("commands", "figure", "given", "table")


class TableEntry(ConfigModel):
    """A table: of a record by its name there, or the rows at ``at`` of a JSON file."""

    record: str | None = None
    table: str | None = None
    file: str | None = None
    at: str = ""
    by: str | list[str] = "arm"
    where: dict[str, str] = Field(default_factory=dict)  # only the rows that have these values
    columns: dict[str, str | None] = Field(default_factory=dict)  # key: "heading|format"
    caption: str = ""

    @model_validator(mode="after")
    def _one_origin(self) -> TableEntry:
        if (self.record is None) != (self.table is None) or (self.record is None) == (self.file is None):
            raise ValueError("needs record and table, or else file")
        return self


class FigureEntry(ConfigModel):
    """A figure of a record, by its name there, and the picture file that it becomes."""

    record: str
    figure: str
    file: str
    caption: str = ""


class GivenEntry(ConfigModel):
    """A quantity that is no measurement of a record, and where it comes from."""

    text: str
    source: str = Field(min_length=1)


class PageFigures(ConfigModel):
    """The content of figures.yaml."""

    tables: dict[str, TableEntry] = Field(default_factory=dict)
    figures: dict[str, FigureEntry] = Field(default_factory=dict)
    given: dict[str, GivenEntry] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _free_names(self) -> PageFigures:
        for name in self.tables:
            if name in RESERVED:
                raise ValueError(f"tables: {name} means something else in a template; choose another name")
            if not name.isidentifier():
                raise ValueError(f"tables: {name!r} is no name; use letters, digits and _")
        return self


class Names:
    """What the fields of the pages of ``folder`` may name, each made when it is first asked for."""

    def __init__(self, folder: Path, entries: PageFigures, root: Path = PACKAGE_ROOT) -> None:
        self._folder, self._entries, self._root = folder, entries, root
        self._library = Library(folder, root)
        self._documents: dict[str, Document] = {}
        self._tables: dict[str, tuple[Table, str, Freshness]] = {}

    def for_page(self, page: Path) -> dict[str, Any]:
        """The names as the template of ``page`` sees them; pictures are linked relative to it."""
        names: dict[str, Any] = {name: _Late(self, name) for name in self._entries.tables}
        return names | {
            "table": self._table_block,
            "figure": lambda name: self._figure_block(name, page),
            "given": _Given(self._entries.given),
            "commands": commands_block,
        }

    def rows(self, name: str) -> Rows:
        """The table ``name`` for values in sentences."""
        table, _, state = self._table(name)
        entry = self._entries.tables[name]
        return Rows(table, [entry.by] if isinstance(entry.by, str) else entry.by, state)

    def _document(self, name: str) -> Document:
        if name not in self._documents:
            self._documents[name] = read_document(self._folder / name, name, self._root)
        return self._documents[name]

    def _table(self, name: str) -> tuple[Table, str, Freshness]:
        if name not in self._tables:
            self._tables[name] = self._made(self._entries.tables[name])
        return self._tables[name]

    def _made(self, entry: TableEntry) -> tuple[Table, str, Freshness]:
        columns = ";".join(key if text is None else f"{key}|{text}" for key, text in entry.columns.items())
        if entry.file is not None:
            document = self._document(entry.file)
            return json_table(document, entry.at, columns), document.caption, document.freshness
        assert entry.record is not None
        assert entry.table is not None
        source = self._library.source(entry.record)
        table = build_table(source, entry.table)
        if columns:
            table = dataclasses.replace(table, columns=columns_of(columns, table.rows, table.columns))
        return table, source.caption, source.freshness

    def _table_block(self, name: Any) -> Made:
        entry = _named("table", name, self._entries.tables)
        table, origin, state = self._table(name)
        return table_block(table, entry.where, entry.caption, origin, state)

    def _figure_block(self, name: Any, page: Path) -> Made:
        entry = _named("figure", name, self._entries.figures)
        link = Path(os.path.relpath(self._folder / entry.file, page.parent)).as_posix()
        source = self._library.source(entry.record)
        return figure_block(source, entry.figure, entry.file, link, self._folder, entry.caption)


def _named(kind: str, name: Any, entries: dict[str, Any]) -> Any:
    if name not in entries:
        raise UserError(f"{kind} {name!r}: figures.yaml has the {kind}s {', '.join(sorted(entries)) or 'none'}")
    return entries[name]


class _Late:
    """A table that is read when a field first asks for one of its rows."""

    def __init__(self, names: Names, name: str) -> None:
        self._names, self._name = names, name

    def __getitem__(self, key: Any) -> Any:
        return self._names.rows(self._name)[key]


class _Given:
    """Quantities that are no measurement: ``given.NAME``."""

    def __init__(self, entries: dict[str, GivenEntry]) -> None:
        self._entries = entries

    def __getitem__(self, name: Any) -> Made:
        return Made(_named("given", name, self._entries).text, Freshness("none"), block=False)


def read_figures(path: Path) -> PageFigures:
    """figures.yaml, checked. Raises UserError with file, line and key."""
    return load_config(path, PageFigures)
