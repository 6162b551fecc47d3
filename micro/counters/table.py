"""The report of a counter run, made from its record alone: counted = predicted first, then what is left, then use.

A terminal of 80 columns must hold it, so a pair of figures is one cell and causes are prose, not columns. The trap:
figures by instruction are a hundred rows; they stay in the JSON form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from micro.counters.causes import lsu_rows
from micro.counters.compare import (
    STALLS,
    USE,
    cause_rows,
    comparison_rows,
    difference_rows,
    equal_everywhere,
    summary_rows,
)
from micro.counters.record import CountersRecord
from stats.base.safe_text import safe_text
from stats.base.tables import Column, Format, render, to_json, told, wrapped

_PAIRS = {"lds": "LDS", "ldsm": "LDSM", "wavefronts": "load wavefronts", "conflicts": "bank conflicts"}
_USE_HEADINGS = {
    "cycles": "cycles",
    "lsu_percent": "LSU pipe %",
    "port_percent": "L1 data port %",
    "tensor_percent": "tensor pipe %",
    "l2_percent": "L2 %",
    "occupancy_percent": "occupancy %",
}
_LEGENDS = {
    "lsu_percent": "of the load/store unit's peak",
    "port_percent": "of the wavefronts that shared memory and L1 could serve",
    "tensor_percent": "of the tensor cores' peak",
    "occupancy_percent": "of the warps that an SM holds",
    "stall_long_scoreboard": "waits for global memory",
    "stall_short_scoreboard": "waits for shared memory",
    "stall_mio_throttle": "the queue to the load/store unit is full",
    "stall_barrier": "waits for the block's other warps",
    "stall_math_pipe": "the tensor cores are busy",
}


def _pair(row: Mapping[str, Any], key: str) -> str:
    """``32 = 32``, or ``32.5 ≠ 32``; a dash where nothing was counted."""
    counted, predicted = row[key], row[f"{key}_predicted"]
    if counted is None:
        return f"– ({predicted:.10g})"
    return f"{counted:.10g} {'=' if counted == predicted else '≠'} {predicted:.10g}"


def _main(record: CountersRecord, fmt: Format) -> str:
    columns = [Column("arm", "arm", align="left"), *(Column(key, heading) for key, heading in _PAIRS.items())]
    columns[1:3] = [Column("lds", "LDS", legend="ld.shared"), Column("ldsm", "LDSM", legend="ldmatrix")]
    columns += [
        Column("equal", "equal", "d", legend="predicted counters that are equal in the whole launch"),
        Column("explained", "explained", "d", legend="those that differ by a cause told below"),
        Column("open", "open", "d", legend="those that differ and nothing shows why"),
    ]
    columns += [
        Column("pipe_wavefronts", "wavefronts, chip's", ".3f", min_width=110),
        Column("pipe_conflicts", "conflicts, chip's", ".3f", min_width=110),
    ]
    rows = [{**row, **{key: _pair(row, key) for key in _PAIRS}} for row in summary_rows(record)]
    return render(columns, rows, fmt)


def _lsu(record: CountersRecord, fmt: Format) -> str:
    columns = [
        Column("arm", "arm", align="left"),
        Column("counted", "LSU pipe", ",d", legend="instructions that its counter shows"),
        Column("by_opcode", "its opcodes", ",d", legend="counted one by one in the machine code"),
        Column("left", "left", ",d", legend="the first less the second"),
        Column("left_per_warp", "left per warp", ".6g"),
        Column(
            "s2r_per_warp", "S2R per warp", ".6g", legend="reads of special registers, some of which the pipe serves"
        ),
    ]
    return render(columns, lsu_rows(record), fmt)


def _use(record: CountersRecord, keys: Sequence[str], headings: Mapping[str, str], fmt: Format) -> str:
    columns = [Column("arm", "arm", align="left")]
    columns += [
        Column(key, headings[key], ",.0f" if key == "cycles" else ".2f", legend=_LEGENDS.get(key, "")) for key in keys
    ]
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
    """What this chip calls what the names under test ask for, and what is missing."""
    lines = []
    for draft in record.drafts:
        says = f"exists ({len(draft.matches)} names)" if "*" in draft.name and draft.exists else "exists"
        says = says if draft.exists else "does not exist on this chip"
        by = ", ".join(draft.measured_by) or "nothing"
        same = draft.exists and draft.measured_by == [draft.name]
        lines.append(f"{draft.name}: {says}" + ("" if same else f"; measured by {by}"))
    lines += [f"missing: {metric.key}: {metric.reason}" for metric in record.metrics if metric.reason]
    return lines


def render_counters(record: CountersRecord, fmt: Format) -> str:
    """The whole report. ``csv`` is one row a launch and metric; ``json`` is the record with its tables."""
    if fmt == "json":
        derived = {
            "summary": summary_rows(record),
            "causes": cause_rows(record),
            "remainders": difference_rows(record),
            "lsu_pipe": lsu_rows(record),
        }
        return to_json({**record.model_dump(mode="json"), **derived}) + "\n"
    if fmt == "csv":
        keys = (
            "arm",
            "key",
            "counted",
            "predicted",
            "difference",
            "counted_per_kstep",
            "predicted_per_kstep",
            "metric",
        )
        return render([Column(key, key) for key in keys], comparison_rows(record), "csv")
    lines = heading_lines(record)
    stall_headings = {key: key.removeprefix("stall_").replace("_", " ") for key in STALLS}
    parts = [
        _lines(lines, fmt),
        _titled("Per warp k-step, counted = predicted from the addresses, by instruction", _main(record, fmt), fmt),
        _lines([_equal_line(record)], fmt),
        _titled("What differs in a whole launch, and why", _causes(record, fmt), fmt),
        _titled("What the LSU pipe counts: loads, stores, cp.async, SHFL, LDGDEPBAR, some S2R", _lsu(record, fmt), fmt),
        _titled("Use of the machine", _use(record, USE, _USE_HEADINGS, fmt), fmt),
        _titled("Stalls, cycles per instruction issued", _use(record, STALLS, stall_headings, fmt), fmt),
        _titled("Names under test, and what is missing", _lines(name_lines(record), fmt), fmt),
    ]
    return "\n".join(parts)


def _equal_line(record: CountersRecord) -> str:
    equal = ", ".join(equal_everywhere(record)) or "none"
    return f"Equal to the prediction to the last one, in every launch: {equal}."


def _causes(record: CountersRecord, fmt: Format) -> str:
    """Prose, a paragraph a metric and cause."""
    rows = cause_rows(record)
    if not rows:
        return "nothing: every counter that was predicted equals its prediction to the last\n"
    if fmt == "md":
        return "".join(f"- {told('{key}: {difference} ({launches}). {cause}'.format_map(row), fmt)}\n" for row in rows)
    causes = [(f"{row['key']}: {row['difference']} ({row['launches']})", f"  {row['cause']}") for row in rows]
    return "".join(f"{wrapped(what)}\n{wrapped(why, 0)}\n" for what, why in causes)


def _titled(title: str, body: str, fmt: Format) -> str:
    return f"**{told(title, fmt)}**\n\n{body}" if fmt == "md" else f"{safe_text(title)}\n\n{body}"


def _lines(lines: Sequence[str], fmt: Format) -> str:
    return "".join(told(line, fmt) + ("  \n" if fmt == "md" else "\n") for line in lines)
