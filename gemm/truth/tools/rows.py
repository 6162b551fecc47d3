"""How does a comparison of tools become a table? Comparisons with their truth in, one row a tool and measure out.

An error is estimate less truth; the row has the median and the 95 % quantile of its size over the A/A pairs, the median
over the pairs of each effect, and how many times ours the A/A error is. The trap: our fresh-process form must not cost
more than what it is set beside, so it is made of the very blocks of the one-process form, regrouped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gemm.truth.tools.design import MEASURES, OURS, OURS_PROCESSES, Comparison
from stats.base.tables import Column


def regrouped(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Our blocks once more, spread over the processes: as many comparisons of as many blocks, each from all processes.

    With P processes, comparison (j, q) is the mean over them of a P-th of the blocks of each one's j-th pair of that
    effect; every block is used once. None from one process.
    """
    processes = sorted({one.process for one in comparisons})
    if len(processes) < 2:
        return []
    found: list[Comparison] = []
    keys = dict.fromkeys((one.measure, one.effect_percent) for one in comparisons if one.tool == OURS)
    for measure, effect in keys:
        series = [
            [
                one
                for one in comparisons
                if (one.process, one.tool, one.measure, one.effect_percent) == (process, OURS, measure, effect)
            ]
            for process in processes
        ]
        for group in zip(*series, strict=False):
            for part in range(len(processes)):
                means = []
                for place, one in enumerate(group):
                    blocks = np.array_split(np.array(one.block_log_ratios), len(processes))
                    means.append(float(blocks[(part + place) % len(processes)].mean()))
                ratio = math.exp(float(np.mean(means)))
                truth = float(np.mean([one.truth_percent for one in group]))
                wall = float(np.mean([one.wall_s for one in group]))
                found.append(
                    Comparison(
                        process=-1,
                        index=len(found),
                        effect_percent=effect,
                        tool=OURS_PROCESSES,
                        measure=measure,
                        l2=group[0].l2,
                        a=ratio,
                        b=1.0,
                        estimate_percent=100 * (ratio - 1),
                        truth_percent=truth,
                        launches=group[0].launches,
                        wall_s=wall,
                    )
                )
    return found


def _row(of_measure: Sequence[Comparison], effects: Sequence[float]) -> dict[str, Any]:
    by_effect = {
        effect: np.array([one.error_percent for one in of_measure if one.effect_percent == effect])
        for effect in (0.0, *effects)
    }
    aa = by_effect[0.0]
    row: dict[str, Any] = {
        "comparisons": len(of_measure),
        "aa_comparisons": len(aa),
        "launches": float(np.median([one.launches for one in of_measure])),
        "wall_s": float(np.median([one.wall_s for one in of_measure])),
        "aa_median_percent": float(np.median(np.abs(aa))) if len(aa) else None,
        "aa_p95_percent": float(np.quantile(np.abs(aa), 0.95)) if len(aa) else None,
        "aa_mean_percent": float(aa.mean()) if len(aa) else None,
    }
    for effect in effects:
        errors = by_effect[effect]
        row[f"error_{effect:g}_percent"] = float(np.median(np.abs(errors))) if len(errors) else None
        row[f"bias_{effect:g}_percent"] = float(errors.mean()) if len(errors) else None
    return row


def _over(value: float | None, ours: float | None) -> float | None:
    return value / ours if value is not None and ours else None


def summarise(
    comparisons: Sequence[Comparison], effects: Sequence[float], missing: Mapping[str, str]
) -> list[dict[str, Any]]:
    """One row for each tool and measure, and one for each tool that did not run, with the reason.

    ``aa_*_over_cycles`` and ``_over_time`` are this row's A/A error over ours of one process.
    """
    everything = [*comparisons, *regrouped(comparisons)]
    rows = []
    for tool, measure, l2 in MEASURES:
        found = [one for one in everything if (one.tool, one.measure) == (tool, measure)]
        if found:
            rows.append({"tool": tool, "measure": measure, "l2": l2, **_row(found, effects), "remark": ""})
    ours = {row["measure"]: row for row in rows if row["tool"] == OURS}
    for row in rows:
        for metric, key in (("SM cycles", "cycles"), ("time", "time")):
            for figure in ("aa_median", "aa_p95"):
                own = ours.get(metric, {}).get(f"{figure}_percent")
                row[f"{figure}_over_{key}"] = _over(row[f"{figure}_percent"], own)
    rows += [{"tool": tool, "measure": "", "l2": "", "remark": reason} for tool, reason in missing.items()]
    return rows


def columns_for(effects: Sequence[float]) -> list[Column]:
    """The columns of the table; the other keys of the rows are in JSON records and can be asked for in marks."""
    return [
        Column("tool", "tool", align="left"),
        Column("measure", "measure", align="left"),
        Column("l2", "L2", align="left"),
        Column("aa_comparisons", "A/A pairs", "d", min_width=100),
        Column("launches", "timed launches a side", ".0f", min_width=100),
        Column("wall_s", "s a comparison", ".2f", min_width=140),
        Column("aa_median_percent", "A/A error, median (%)", ".4f"),
        Column("aa_p95_percent", "A/A error, 95 % (%)", ".4f"),
        Column("aa_p95_over_cycles", "× ours in cycles", ".1f"),
        Column("aa_p95_over_time", "× ours in time", ".1f"),
        *(
            Column(f"error_{effect:g}_percent", f"error at {effect:g} % (%)", ".4f", min_width=100)
            for effect in effects
        ),
        Column("remark", "", align="left"),
    ]
