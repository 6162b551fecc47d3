"""The cells of records for other programs: one typed row a cell, as CSV or as pandas reads it with its types.

``pandas`` is JSON with a table schema: ``pandas.read_json(path, orient="table")`` gives the right type to every column
without being told. Each row says whether the analysis used its block; a skipped arm has a row that says why. The trap:
a figure that was not measured is an empty field, never 0 and never the text "nan".
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from typing import Any, Literal

from stats.base.safe_text import csv_text, dumped
from stats.base.tables import csv_cell
from stats.report.source import Source

ExportForm = Literal["csv", "pandas"]
EXPORT_FORMS: tuple[ExportForm, ...] = ("csv", "pandas")

_TYPES = {
    "record": "string",
    "device": "string",
    "arm": "string",
    "process": "integer",
    "attempt": "integer",
    "block": "integer",
    "position": "integer",
    "accepted": "boolean",
    "launches": "integer",
    "time_ns": "number",
    "sm_cycles": "number",
    "clock_mhz": "number",
    "temperature_c": "number",
    "power_w": "number",
    "nvml_clock_mhz": "number",
    "throttle_reasons": "string",
    "other_processes": "integer",
    "started_s": "number",
    "skipped": "string",
}
_NULLABLE = {"integer": "Int64", "boolean": "boolean"}  # pandas' own types that can be missing


def _rows(source: Source) -> list[dict[str, Any]]:
    device = source.header.device
    common = {"record": source.shown_as, "device": device.name if device else None}
    rows: list[dict[str, Any]] = []
    for cell in source.record.cells:
        row: dict[str, Any] = dict(common)
        for name in _TYPES:
            if hasattr(cell, name):
                row[name] = getattr(cell, name)
        row["throttle_reasons"] = " ".join(cell.throttle_reasons) or None
        row["accepted"] = source.accepts(cell)
        rows.append(row | {f"value_{name}": value for name, value in cell.values.items()})
    rows += [{**common, "arm": skip.arm, "skipped": skip.reason} for skip in source.record.skips]
    return [
        {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()}
        for row in rows
    ]


def exported(sources: Sequence[Source], form: ExportForm) -> str:
    """The cells of ``sources``, one after the other, as text in ``form``."""
    rows = [row for source in sources for row in _rows(source)]
    values = sorted({key for row in rows for key in row} - set(_TYPES))
    types = _TYPES | dict.fromkeys(values, "number")
    return _csv(rows, list(types)) if form == "csv" else _table_schema(rows, types)


def _csv(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(csv_text, names))
    writer.writerows([csv_cell(row.get(name)) for name in names] for row in rows)
    return out.getvalue()


def _table_schema(rows: Sequence[dict[str, Any]], types: dict[str, str]) -> str:
    fields = []
    for name, kind in types.items():
        missing = any(row.get(name) is None for row in rows)
        nullable = {"extDtype": _NULLABLE[kind]} if missing and kind in _NULLABLE else {}
        fields.append({"name": name, "type": kind, **nullable})
    schema = dumped({"fields": fields, "pandas_version": "1.4.0"})
    lines = ",\n".join(dumped({name: row.get(name) for name in types}) for row in rows)
    return f'{{"schema": {schema},\n"data": [\n{lines}\n]}}\n'
