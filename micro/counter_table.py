"""The tables of a counter run, made from its record alone: counted beside predicted, and where they differ.

Figures per warp k-step divide by the warps of the grid and the k-steps of each; differences are of the whole launch, so
that one instruction shows. The trap: a per-k-step figure that looks right can hide a prologue, so equality is judged
on the launch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from micro.counter_causes import cause, exact_wavefronts, lsu_rows
from micro.counter_record import CountersRecord, LaunchRow
from stats.tables import Column, Format, render, to_json

__all__ = ["comparison_rows", "difference_rows", "render_counters", "summary_rows"]

# Counted and predicted figures of the first table; a column of the pipe's count stands beside the instructions' own.
_MAIN = {"lds": "LDS", "ldsm": "LDSM", "wavefronts": "load wavefronts"}
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
    """The rows in which counted and predicted differ, with the parts that the prediction adds up, and the cause."""
    rows = [row for row in comparison_rows(record) if row["difference"]]
    launches = {launch.arm: launch for launch in record.launches}
    predicted = {metric.key: metric.predicted for metric in record.metrics}
    for row in rows:
        key = predicted[row["key"]] or ""
        parts = {where: part[key] for where, part in launches[row["arm"]].predicted.items() if part.get(key)}
        row["parts"] = " + ".join(f"{count} {where}" for where, count in parts.items()) or "none"
        row["cause"] = cause(launches[row["arm"]], row["key"])
    return rows


def _whole(value: float | None) -> int | float | None:
    return int(value) if value is not None and value.is_integer() else value


def _difference(launch: LaunchRow, key: str, predicted: str) -> int | float | None:
    counted = launch.counted.get(key)
    return None if counted is None else _whole(counted - launch.predicted_total(predicted))


def _per_kstep(launch: LaunchRow, value: float | None) -> float | None:
    return None if value is None else value / launch.warp_ksteps


def summary_rows(record: CountersRecord) -> list[dict[str, Any]]:
    """One row a launch, per warp k-step: instructions, their wavefronts, the pipe's, conflicts; then use, stalls.

    ``X_predicted`` stands beside ``X``; ``equal`` of ``compared`` are the predicted counters without a difference.
    """
    return [_summary(record, launch) for launch in record.launches]


def _summary(record: CountersRecord, launch: LaunchRow) -> dict[str, Any]:
    def counted(key: str) -> float | None:
        return _per_kstep(launch, launch.counted.get(key))

    def predicted(key: str) -> float | None:
        return _per_kstep(launch, launch.predicted_total(key))

    differences = [_difference(launch, row.key, row.predicted) for row in record.metrics if row.predicted is not None]
    known = [value for value in differences if value is not None]
    return {
        "arm": launch.arm,
        "lds": counted("lds"),
        "lds_predicted": predicted("lds"),
        "ldsm": counted("ldsm"),
        "ldsm_predicted": predicted("ldsm"),
        "wavefronts": _per_kstep(launch, exact_wavefronts(launch.counted, "load")),
        "wavefronts_predicted": predicted("load_wavefronts"),
        "pipe_wavefronts": counted("load_wavefronts"),
        "conflicts": counted("load_conflicts"),
        "conflicts_predicted": predicted("load_conflicts"),
        "equal": sum(value == 0 for value in known),
        "compared": len(known),
        **{key: launch.counted.get(key) for key in (*_USE, *_STALLS)},
    }


def _main_columns() -> list[Column]:
    columns = [Column("arm", "arm", align="left")]
    for key, heading in _MAIN.items():
        columns += [Column(key, heading, ".10g"), Column(f"{key}_predicted", "predicted", ".10g")]
    columns += [Column("pipe_wavefronts", "at the pipe", ".3f"), Column("conflicts", "bank conflicts", ".3f")]
    columns.append(Column("conflicts_predicted", "predicted", ".10g"))
    return [*columns, Column("equal", "equal"), Column("compared", "of")]


def _lsu(record: CountersRecord, fmt: Format) -> str:
    columns = [
        Column("arm", "arm", align="left"),
        Column("counted", "LSU pipe", ",d"),
        Column("by_opcode", "its opcodes", ",d"),
        Column("left", "left", ",d"),
        Column("left_per_warp", "left per warp", ".6g"),
        Column("s2r_per_warp", "S2R per warp", ".6g"),
    ]
    return render(columns, lsu_rows(record), fmt)


def _addresses(record: CountersRecord, fmt: Format) -> str:
    columns = [
        Column("arm", "arm", align="left"),
        Column("instructions", "instructions", "d"),
        Column("first", "first at"),
        Column("executed", "executed, each", ",d"),
        Column("wavefronts", "shared wavefronts", ",d"),
        Column("ideal", "ideal", ",d"),
        Column("tags", "global tags", ",d"),
    ]
    rows = [{"arm": launch.arm, **row.model_dump()} for launch in record.launches for row in launch.addresses]
    return render(columns, rows, fmt)


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
    """The whole report. ``csv`` is one row a launch and metric; ``json`` is the record with its tables."""
    if fmt == "json":
        derived = {"summary": summary_rows(record), "remainders": difference_rows(record), "lsu_pipe": lsu_rows(record)}
        return to_json({**record.model_dump(mode="json"), **derived}) + "\n"
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
            render(_main_columns(), summary_rows(record), fmt),
            fmt,
        ),
        _titled("What differs, whole launch", _differences(different, comparison, fmt), fmt),
        _titled("What the LSU pipe counts: loads, stores, cp.async, SHFL, LDGDEPBAR, some S2R", _lsu(record, fmt), fmt),
        *([_titled("By instruction, whole launch", _addresses(record, fmt), fmt)] if _has_addresses(record) else []),
        _titled("Use of the machine", _use(record, _USE, _USE_HEADINGS, fmt), fmt),
        _titled("Stalls, cycles per instruction issued", _use(record, _STALLS, stall_headings, fmt), fmt),
        _titled("Names of the draft, and what is missing", _lines(name_lines(record), fmt), fmt),
    ]
    return "\n".join(parts)


def _differences(rows: list[dict[str, Any]], comparison: list[Column], fmt: Format) -> str:
    if not rows:
        return "nothing: every counter that was predicted equals its prediction to the last\n"
    words = [Column("parts", "predicted parts", align="left"), Column("cause", "cause", align="left")]
    return render([*comparison, *words], rows, fmt)


def _has_addresses(record: CountersRecord) -> bool:
    return any(launch.addresses for launch in record.launches)


def _titled(title: str, body: str, fmt: Format) -> str:
    return f"**{title}**\n\n{body}" if fmt == "md" else f"{title}\n\n{body}"


def _lines(lines: Sequence[str], fmt: Format) -> str:
    end = "  \n" if fmt == "md" else "\n"
    return "".join(line + end for line in lines)
