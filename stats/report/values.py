"""One number out of a table: the row that has these values, the column of this key, written in this way.

Every table is thereby a source of numbers for prose, and no number needs a query of its own. The trap: a condition that
fits two rows would quote whichever comes first, so it is an error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stats.base.errors import UserError
from stats.record.freshness import Freshness
from stats.report.model import Table


def select_rows(table: Table, row: Mapping[str, str]) -> list[Mapping[str, Any]]:
    """The rows of ``table`` whose values are ``row``'s; all without a condition. Raises UserError where none is."""
    keys = sorted({key for one in table.rows for key in one})
    for key in row:
        if key not in keys:
            raise UserError(f"row {_condition(row)}: no column {key!r}; there are {', '.join(keys)}")
    found = [one for one in table.rows if all(str(one.get(key)) == value for key, value in row.items())]
    if row and not found:
        there = dict.fromkeys(" ".join(f"{key}={one.get(key)}" for key in row) for one in table.rows)
        raise UserError(f"row {_condition(row)}: is none of {len(table.rows)} rows; there are {', '.join(there)}")
    return found


def _condition(row: Mapping[str, str]) -> str:
    return repr(" ".join(f"{key}={value}" for key, value in row.items()))


@dataclass(frozen=True)
class Value:
    """A figure of a table for use in a sentence, and whether its sources are still today's."""

    value: Any
    column: str
    spec: str
    freshness: Freshness

    def written_as(self, spec: str = "") -> Value:
        """The same figure by another format spec. Raises UserError for one that does not fit, and for no figure."""
        if not isinstance(self, Value):  # a filter of templates takes whatever stands before it
            raise UserError("fmt: formats a figure, {{ name[row].column | fmt('.1f') }}, and nothing else")
        return replace(self, spec=str(spec))

    @property
    def text(self) -> str:
        """As it stands in the sentence. Raises UserError for a figure that was not measured."""
        if self.value is None or (isinstance(self.value, float) and not math.isfinite(self.value)):
            raise UserError(f"column {self.column!r}: was not measured in this row")
        return formatted(self.value, self.spec) + (" (stale)" if self.freshness.state == "stale" else "")


class Rows:
    """A table as templates see it: ``rows["A3"].tflops``, the key being the value of the table's ``by`` columns."""

    def __init__(self, table: Table, by: Sequence[str], freshness: Freshness) -> None:
        self._table, self._by, self._freshness = table, by, freshness

    def __getitem__(self, key: Any) -> Row:
        keys = key if isinstance(key, tuple) else (key,)
        if len(keys) != len(self._by):
            raise UserError(f"[{', '.join(map(repr, keys))}]: a row is named by {', '.join(self._by)}")
        row = dict(zip(self._by, map(str, keys), strict=True))
        found = select_rows(self._table, row)
        if len(found) != 1:
            raise UserError(f"row {_condition(row)}: fits {len(found)} of {len(self._table.rows)} rows; name one")
        return Row(found[0], {column.key: column.spec for column in self._table.columns}, self._freshness)


class Row:
    """One row as templates see it: its figures by the key of their column. Raises UserError for an unknown one."""

    def __init__(self, row: Mapping[str, Any], specs: Mapping[str, str], freshness: Freshness) -> None:
        self._row, self._specs, self._freshness = row, specs, freshness

    def __getitem__(self, column: Any) -> Value:
        if column not in self._row:
            raise UserError(f"column {column!r}: the columns are {', '.join(sorted(self._row))}")
        value = self._row[column]
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return Value(value, column, self._specs.get(column, "") if number else "", self._freshness)


def formatted(value: Any, spec: str) -> str:
    """``value`` by a format spec, as it is without one. Raises UserError for a spec that does not fit it."""
    try:
        return format(value, spec) if spec else str(value)
    except (ValueError, TypeError):
        raise UserError(f"spec {spec!r}: does not format {value!r}; try .1f") from None
