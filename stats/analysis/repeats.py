"""How far do the recorded runs of one pair lie from each other? What no interval inside a run can say.

Each record gives one effect with its interval; the spread over records is that of runs with other arms beside the pair,
at other times, perhaps on another board. The trap: an interval over the processes of one run covers that run's mix of
arms and its hour, and may be far narrower than what the next run says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from stats.analysis.compare import analyse
from stats.analysis.effect import percent
from stats.analysis.intervals import Floats
from stats.base.errors import UserError
from stats.base.tables import Column
from stats.record.schema import Record

COLUMNS = [
    Column("record", "record", align="left"),
    Column("metric", "in", align="left"),
    Column("effect_percent", "effect %", "+.3f"),
    Column("low_percent", "from", "+.3f"),
    Column("high_percent", "to", "+.3f"),
    Column("processes", "n", "d"),
    Column("arms", "arms beside each other", "d"),
    Column("spread_percent", "standard deviation %", ".3f"),
]


def repeat_rows(records: Sequence[Record], a: str, b: str) -> list[dict[str, Any]]:
    """One row per record and metric, then the mean and standard deviation over the records of each metric, in per cent.

    Raises UserError when fewer than two records hold both arms.
    """
    import numpy as np

    holding = [record for record in records if {a, b} <= {cell.arm for cell in record.cells}]
    if len(holding) < 2:
        raise UserError(f"{a} and {b}: {len(holding)} of the records hold both arms; at least 2 are needed")
    rows: list[dict[str, Any]] = []
    for metric in ("cycles", "time"):
        thetas = []
        for record in holding:
            (found,) = analyse(record, a=a, b=b, metric=metric).comparisons
            inference = found.inference
            if inference.t is None:
                continue
            thetas.append(inference.theta)
            rows.append(
                {
                    "record": record.name,
                    "metric": metric,
                    "effect_percent": inference.effect_percent,
                    "low_percent": percent(inference.t.low),
                    "high_percent": percent(inference.t.high),
                    "processes": inference.n,
                    "arms": len(record.arm_names),
                }
            )
        values: Floats = np.array([percent(theta) for theta in thetas])
        rows.append(
            {
                "record": f"all {len(thetas)}",
                "metric": metric,
                "effect_percent": float(values.mean()) if len(values) else math.nan,
                "spread_percent": float(values.std(ddof=1)) if len(values) > 1 else math.nan,
            }
        )
    return rows
