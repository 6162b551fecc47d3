"""Counted beside predicted, from a counter run's record alone: by launch, what differs, and the causes, few.

Figures per warp k-step divide by the warps of the grid and the k-steps of each; differences are of the whole launch, so
that one instruction shows. The traps: a per-k-step figure that looks right can hide a prologue, so equality is judged
on the launch; and a record outlives the questions, so an older one is read with today's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from micro.counters.causes import cause, exact_conflicts, exact_wavefronts, standing
from micro.counters.record import CountersRecord, LaunchRow, MetricRow

USE = ("cycles", "lsu_percent", "port_percent", "tensor_percent", "l2_percent", "occupancy_percent")
STALLS = ("stall_long_scoreboard", "stall_short_scoreboard", "stall_mio_throttle", "stall_barrier", "stall_math_pipe")
# Predictions that configs/counters.yaml gained after records were made: metric key -> key of
# micro.counters.launch_counts.
_GAINED = {"ldgsts_requests": "ldgsts"}


def _questions(record: CountersRecord) -> Iterator[tuple[MetricRow, str]]:
    """The metrics with a prediction, and its key."""
    for metric in record.metrics:
        predicted = metric.predicted or _GAINED.get(metric.key)
        if predicted is not None:
            yield metric, predicted


def comparison_rows(record: CountersRecord) -> list[dict[str, Any]]:
    """One row a launch and predicted metric: counted, predicted, difference (whole launch), both per warp k-step."""
    return [
        {
            "arm": launch.arm,
            "key": metric.key,
            "metric": metric.name,
            "counted": _whole(launch.counted.get(metric.key)),
            "predicted": launch.predicted_total(predicted),
            "difference": _difference(launch, metric.key, predicted),
            "counted_per_kstep": _per_kstep(launch, launch.counted.get(metric.key)),
            "predicted_per_kstep": _per_kstep(launch, launch.predicted_total(predicted)),
        }
        for launch in record.launches
        for metric, predicted in _questions(record)
    ]


def difference_rows(record: CountersRecord) -> list[dict[str, Any]]:
    """The rows in which counted and predicted differ, with the parts that the prediction adds up, and the cause."""
    rows = [row for row in comparison_rows(record) if row["difference"]]
    launches = {launch.arm: launch for launch in record.launches}
    keys = {metric.key: predicted for metric, predicted in _questions(record)}
    for row in rows:
        key, launch = keys[row["key"]], launches[row["arm"]]
        parts = {where: part[key] for where, part in launch.predicted.items() if part.get(key)}
        row["parts"] = " + ".join(f"{count} {where}" for where, count in parts.items()) or "none"
        row["cause"] = cause(launch, row["key"])
    return rows


def cause_rows(record: CountersRecord) -> list[dict[str, Any]]:
    """The same, short: one row a metric and cause, with the launches that show it and how far they differ."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in difference_rows(record):
        groups.setdefault((row["key"], row["cause"]), []).append(row)
    order = [metric.key for metric in record.metrics]
    return [
        {
            "key": key,
            "launches": _names(record, [row["arm"] for row in rows]),
            "difference": _span([row["difference"] for row in rows]),
            "standing": standing(text),
            "cause": text,
        }
        for (key, text), rows in sorted(groups.items(), key=lambda item: order.index(item[0][0]))
    ]


def _names(record: CountersRecord, arms: list[str]) -> str:
    """The launches, shortened where all are meant."""
    return f"all {len(arms)} launches" if len(arms) == len(record.launches) > 1 else ", ".join(arms)


def _span(values: list[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:+,.15g}" if low == high else f"{low:+,.15g} to {high:+,.15g}"


def equal_everywhere(record: CountersRecord) -> list[str]:
    """The metrics counted in every launch without a difference in any."""
    rows = comparison_rows(record)
    keys = dict.fromkeys(row["key"] for row in rows)
    return [key for key in keys if all(row["difference"] == 0 for row in rows if row["key"] == key)]


def _whole(value: float | None) -> int | float | None:
    return int(value) if value is not None and value.is_integer() else value


def _difference(launch: LaunchRow, key: str, predicted: str) -> int | float | None:
    counted = launch.counted.get(key)
    return None if counted is None else _whole(counted - launch.predicted_total(predicted))


def _per_kstep(launch: LaunchRow, value: float | None) -> int | float | None:
    return None if value is None else _whole(value / launch.warp_ksteps)


def summary_rows(record: CountersRecord) -> list[dict[str, Any]]:
    """One row a launch, per warp k-step: instructions, wavefronts, conflicts by instruction; the chip's; use, stalls.

    ``X_predicted`` stands beside ``X``; ``pipe_X`` is what the chip's own counter says. Of ``compared`` metrics with a
    prediction ``equal`` show no difference, ``explained`` one with a cause proven or inferred, ``open`` the rest.
    """
    return [_summary(record, launch) for launch in record.launches]


def _summary(record: CountersRecord, launch: LaunchRow) -> dict[str, Any]:
    def counted(key: str) -> float | None:
        return _per_kstep(launch, launch.counted.get(key))

    def predicted(*keys: str) -> float | None:
        return _per_kstep(launch, sum(launch.predicted_total(key) for key in keys))

    differences = {metric.key: _difference(launch, metric.key, key) for metric, key in _questions(record)}
    known = {key: value for key, value in differences.items() if value is not None}
    unexplained = sum(value != 0 and standing(cause(launch, key)) == "open" for key, value in known.items())
    equal = sum(value == 0 for value in known.values())
    return {
        "arm": launch.arm,
        "lds": counted("lds"),
        "lds_predicted": predicted("lds"),
        "ldsm": counted("ldsm"),
        "ldsm_predicted": predicted("ldsm"),
        "wavefronts": _per_kstep(launch, exact_wavefronts(launch.counted, "load")),
        "wavefronts_predicted": predicted("load_wavefronts"),
        "conflicts": _per_kstep(launch, exact_conflicts(launch)),
        "conflicts_predicted": predicted("load_conflicts", "store_conflicts"),
        "pipe_wavefronts": counted("load_wavefronts"),
        "pipe_conflicts": counted("load_conflicts"),
        "equal": equal,
        "explained": len(known) - equal - unexplained,
        "open": unexplained,
        "compared": len(known),
        **{key: _whole(launch.counted.get(key)) for key in (*USE, *STALLS)},
    }
