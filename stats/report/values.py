"""One number out of a table: the row that has these values, the column of this key, written in this way.

Every table is thereby a source of numbers for prose, and no number needs a query of its own. The trap: a condition that
fits two rows would quote whichever comes first, so it is an error.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from typing import Any

from stats.errors import UserError
from stats.report.model import Table

__all__ = ["formatted", "parse_row", "select_rows", "select_value"]


def parse_row(text: str) -> dict[str, str]:
    """``variant=A1 swizzle=on`` as a mapping; values may be quoted. Raises UserError for anything else."""
    try:
        parts = shlex.split(text)
    except ValueError as error:
        raise UserError(f"row {text!r}: {str(error).lower()}") from None
    found = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals or not key:
            raise UserError(f"row {text!r}: {part!r} is not key=value")
        found[key] = value
    return found


def select_rows(table: Table, row: Mapping[str, str]) -> list[Mapping[str, Any]]:
    """The rows of ``table`` whose values are ``row``'s; all without a condition. Raises UserError where none is."""
    keys = sorted({key for one in table.rows for key in one})
    for key in row:
        if key not in keys:
            raise UserError(f"row {_condition(row)}: no column {key!r}; there are {', '.join(keys)}")
    found = [one for one in table.rows if all(str(one.get(key)) == value for key, value in row.items())]
    if row and not found:
        raise UserError(f"row {_condition(row)}: fits none of {len(table.rows)} rows")
    return found


def _condition(row: Mapping[str, str]) -> str:
    return repr(" ".join(f"{key}={value}" for key, value in row.items()))


def select_value(table: Table, row: Mapping[str, str], column: str, spec: str = "") -> str:
    """The figure of ``column`` in the one row whose values are ``row``'s, formatted by ``spec`` (a format spec).

    Raises UserError for no row, several rows, an unknown column, a figure that was not measured, or a bad spec.
    """
    found = select_rows(table, row)
    if len(found) != 1:
        raise UserError(f"row {_condition(row)}: fits {len(found)} of {len(table.rows)} rows; name one")
    if column not in found[0]:
        raise UserError(f"column {column!r}: the columns are {', '.join(sorted(found[0]))}")
    return _written(found[0][column], column, spec)


def _written(value: Any, column: str, spec: str) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        raise UserError(f"column {column!r}: was not measured in this row")
    return formatted(value, spec)


def formatted(value: Any, spec: str) -> str:
    """``value`` by a format spec, as it is without one. Raises UserError for a spec that does not fit it."""
    try:
        return format(value, spec) if spec else str(value)
    except (ValueError, TypeError):
        raise UserError(f"spec {spec!r}: does not format {value!r}; try .1f") from None
