"""The tables of a counter run, made from its record alone: counted beside predicted, and where they differ.

Figures per warp k-step divide by the warps of the grid and the k-steps of each; differences are of the whole launch, so
that one instruction shows. The trap: a per-k-step figure that looks right can hide a prologue, so equality is judged
on the launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from micro.counter_record import CountersRecord, LaunchRow
from stats.tables import Column, Format, render, to_json

__all__ = ["comparison_rows", "difference_rows", "render_counters"]

_HEADINGS = {
    "lds": "LDS",
    "ldsm": "LDSM",
    "load_wavefronts": "load wavefronts",
    "load_conflicts": "bank conflicts",
    "store_wavefronts": "store wavefronts",
}
_MAIN = ("lds", "ldsm", "load_wavefronts", "load_conflicts")
_USE = ("cycles", "lsu_percent", "port_percent", "tensor_percent", "l2_percent", "occupancy_percent")
_STALLS = ("stall_long_scoreboard", "stall_short_scoreboard", "stall_mio_throttle", "stall_barrier", "stall_math_pipe")
_USE_HEADINGS = {
    "cycles": "cycles",
    "lsu_percent": "LSU pipe %",
    "port_percent": "L1 data port %",
    "tensor_percent": "tensor pipe %",
    "l2_percent": "L2 %",
    "occupancy_percent": "occupancy %",
}


def comparison_rows(record: CountersRecord) -> list[dict[str, Any]]:
    """One row a launch and predicted metric: counted, predicted, difference (whole launch), both per warp k-step."""
    return [
        {
            "arm": launch.arm,
            "key": metric.key,
            "metric": metric.name,
            "counted": _whole(launch.counted.get(metric.key)),
            "predicted": launch.predicted_total(metric.predicted),
            "difference": _difference(launch, metric.key, metric.predicted),
            "counted_per_kstep": _per_kstep(launch, launch.counted.get(metric.key)),
            "predicted_per_kstep": _per_kstep(launch, launch.predicted_total(metric.predicted)),
        }
        for launch in record.launches
        for metric in record.metrics
        if metric.predicted is not None
    ]


def difference_rows(record: CountersRecord) -> list[dict[str, Any]]:
    """The rows in which counted and predicted differ, with the parts that the prediction adds up."""
    rows = [row for row in comparison_rows(record) if row["difference"]]
    launches = {launch.arm: launch for launch in record.launches}
    predicted = {metric.key: metric.predicted for metric in record.metrics}
    for row in rows:
        key = predicted[row["key"]] or ""
        parts = {where: part[key] for where, part in launches[row["arm"]].predicted.items() if part.get(key)}
        row["parts"] = " + ".join(f"{count} {where}" for where, count in parts.items()) or "none"
    return rows


def _whole(value: float | None) -> int | float | None:
    return int(value) if value is not None and value.is_integer() else value


def _difference(launch: LaunchRow, key: str, predicted: str) -> int | float | None:
    counted = launch.counted.get(key)
    return None if counted is None else _whole(counted - launch.predicted_total(predicted))


def _per_kstep(launch: LaunchRow, value: float | None) -> float | None:
    return None if value is None else value / launch.warp_ksteps


def _main_rows(record: CountersRecord) -> Iterator[dict[str, Any]]:
    for launch in record.launches:
        row: dict[str, Any] = {"arm": launch.arm}
        differences: list[float | None] = []
        for key in _MAIN:
            metric = record.metric(key)
            predicted = (metric.predicted if metric is not None else None) or key
            row[key] = _per_kstep(launch, launch.counted.get(key))
            row[f"{key}_predicted"] = _per_kstep(launch, launch.predicted_total(predicted))
        for metric in record.metrics:
            if metric.predicted is not None:
                differences.append(_difference(launch, metric.key, metric.predicted))
        known = [value for value in differences if value is not None]
        row["equal"] = f"{sum(value == 0 for value in known)} of {len(known)}" if known else None
        yield row


def _main_columns() -> list[Column]:
    columns = [Column("arm", "arm", align="left")]
    for key in _MAIN:
        columns += [Column(key, f"{_HEADINGS[key]}", ".4g"), Column(f"{key}_predicted", "predicted", ".4g")]
    return [*columns, Column("equal", "equal to the last")]


def _use(record: CountersRecord, keys: Sequence[str], headings: Mapping[str, str], fmt: Format) -> str:
    columns = [Column("arm", "arm", align="left")]
    columns += [Column(key, headings[key], ",.0f" if key == "cycles" else ".2f") for key in keys]
    rows = [{"arm": launch.arm, **{key: launch.counted.get(key) for key in keys}} for launch in record.launches]
    return render(columns, rows, fmt)


def heading_lines(record: CountersRecord) -> list[str]:
    """What was counted, where, with what."""
    clock = {"none": "clocks left alone", "base": "clocks held at base by ncu"}[record.config["clock_control"]]
    return [
        f"{record.tool} counters: {record.device.name} (sm_{record.device.compute_capability.replace('.', '')}), "
        f"driver {record.device.driver}, ncu {record.software.get('ncu', 'unknown')}, {clock}",
        f"sources {record.source_hash}, {record.created_utc}; {len(record.launches)} launches, one each",
    ]


def name_lines(record: CountersRecord) -> list[str]:
    """What this chip calls what the draft names, and what is missing."""
    lines = []
    for draft in record.drafts:
        says = f"exists ({len(draft.matches)} names)" if "*" in draft.name and draft.exists else "exists"
        says = says if draft.exists else "does not exist on this chip"
        by = ", ".join(draft.measured_by) or "nothing"
        same = draft.exists and draft.measured_by == [draft.name]
        lines.append(f"{draft.name}: {says}" + ("" if same else f"; measured by {by}"))
    lines += [f"missing: {metric.key}: {metric.reason}" for metric in record.metrics if metric.reason]
    return lines


def render_counters(record: CountersRecord, fmt: Format, *, stale: bool = False) -> str:
    """The whole report. ``csv`` is one row a launch and metric; ``json`` is the record itself."""
    if fmt == "json":
        return to_json(record.model_dump(mode="json")) + "\n"
    comparison = [
        Column("arm", "arm", align="left"),
        Column("key", "metric", align="left"),
        Column("counted", "counted", ",.15g"),
        Column("predicted", "predicted", ",.15g"),
        Column("difference", "difference", "+,.15g"),
    ]
    if fmt == "csv":
        extra = [Column("counted_per_kstep", "per k-step"), Column("predicted_per_kstep", "predicted per k-step")]
        return render([*comparison, *extra, Column("metric", "name", align="left")], comparison_rows(record), "csv")
    lines = heading_lines(record)
    if stale:
        lines.append("STALE: the kernel sources have changed since")
    different = difference_rows(record)
    stall_headings = {key: key.removeprefix("stall_").replace("_", " ") for key in _STALLS}
    parts = [
        _lines(lines, fmt),
        _titled(
            "Per warp k-step: counted by the hardware, and predicted from the addresses",
            render(_main_columns(), list(_main_rows(record)), fmt),
            fmt,
        ),
        _titled("What differs, whole launch", _differences(different, comparison, fmt), fmt),
        _titled("Use of the machine", _use(record, _USE, _USE_HEADINGS, fmt), fmt),
        _titled("Stalls, cycles per instruction issued", _use(record, _STALLS, stall_headings, fmt), fmt),
        _titled("Names of the draft, and what is missing", _lines(name_lines(record), fmt), fmt),
    ]
    return "\n".join(parts)


def _differences(rows: list[dict[str, Any]], comparison: list[Column], fmt: Format) -> str:
    if not rows:
        return "nothing: every counter that was predicted equals its prediction to the last\n"
    return render([*comparison, Column("parts", "predicted parts", align="left")], rows, fmt)


def _titled(title: str, body: str, fmt: Format) -> str:
    return f"**{title}**\n\n{body}" if fmt == "md" else f"{title}\n\n{body}"


def _lines(lines: Sequence[str], fmt: Format) -> str:
    end = "  \n" if fmt == "md" else "\n"
    return "".join(line + end for line in lines)
