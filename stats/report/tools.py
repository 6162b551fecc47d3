"""Which module knows what the records of a tool show?

micro and gemm know their tables and figures, and this package must not import them: imports run stats <- micro <- gemm.
So the map from a record's tool to its report is a table of names here, resolved when a record of that tool is met.
The trap: the name comes from this table, never from the record; a record is data, and data must not choose what is
imported. A tool without an entry (any two functions that somebody compared) has the tables that every record has.
"""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache

from stats.report.model import ToolReport

TOOL_REPORTS = {
    "micro-bench": "micro.bench.report:REPORT",
    "micro-bench instructions": "micro.bench.report:INSTRUCTIONS",
    "micro-bench contention": "micro.bench.report:CONTENTION",
    "gemm-bench": "gemm.ladder.report:REPORT",
}


@cache
def tool_report(tool: str) -> ToolReport | None:
    """The report of ``tool``, or None where there is none: an unknown tool, or a package that is not installed."""
    where = TOOL_REPORTS.get(tool)
    if where is None:
        return None
    module, _, name = where.partition(":")
    package = module.partition(".")[0]
    if importlib.util.find_spec(package) is None or importlib.util.find_spec(module) is None:
        return None
    found = getattr(importlib.import_module(module), name)
    if not isinstance(found, ToolReport):
        raise TypeError(f"{where} is a {type(found).__name__}, not a ToolReport")
    return found
