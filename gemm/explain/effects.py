"""One comparison of a record in SM cycles, by the statistics layer: per cent with its 95 % interval.

The trap: a ratio without an interval decides nothing, so none is given where the layer gives none.
"""

from __future__ import annotations

from stats.analysis.effect import Interval
from stats.base.errors import UserError
from stats.record.schema import Record


def effect(record: Record, a: str, b: str) -> tuple[float, float, float] | None:
    """``a`` against ``b`` in SM cycles, per cent with its 95 % interval; None where none can be given."""
    from stats.analysis.compare import analyse

    try:
        found = analyse(record, a=a, b=b, metric="cycles")
    except UserError:
        return None
    for comparison in found.comparisons:
        interval: Interval | None = comparison.inference.t
        if (comparison.a, comparison.b) == (a, b) and interval is not None:
            low, high = interval.percent
            return comparison.inference.effect_percent, low, high
    return None
