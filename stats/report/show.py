"""The page that a reviewer would ask for: where, with what, how held, what was left out, what to beware of.

Facts and tables in sections; the terminal, Markdown, JSON and the HTML report are made from the same ones. The trap:
what went wrong (a torn line, clocks that moved, sources that changed) belongs on this page first, not in a log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stats.analysis.intervals import Floats
from stats.base.errors import BenchError
from stats.base.tables import Format, render, to_json, told, wrapped
from stats.record.clock_check import judged_label
from stats.report.model import NotInRecord, Table
from stats.report.queries import build_table
from stats.report.source import Source

Facts = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Section:
    """A heading with facts (label, text), a table, or both."""

    title: str
    facts: Facts = ()
    table: Table | None = None


def sections(source: Source) -> list[Section]:
    """The whole page of a record."""
    found = [
        Section("Run", _run(source)),
        Section("Device and software", _device(source)),
        Section("Sources", _sources(source)),
        Section("Clocks", _clocks(source)),
        Section("Design", _design(source)),
    ]
    for name in ("exclusions", "arms", "aa", "comparisons", "diagnostics", "warnings"):
        try:
            table = build_table(source, name)
        except NotInRecord as missing:
            title = {"aa": "A/A", "comparisons": "Comparisons"}[name]
            found.append(Section(title, [("none", str(missing).partition(": ")[2])]))
            continue
        except BenchError as error:  # the rule left nothing: the page is where a reader learns why
            found.append(Section("Comparisons", [("none", str(error).partition(": ")[2])]))
            continue
        found.append(Section(table.title, [] if table.rows else [("none", table.note or "none")], table))
    return found


def _run(source: Source) -> Facts:
    header, record = source.header, source.record
    facts = [
        ("record", source.shown_as),
        ("tool", header.tool),
        ("run", f"{header.run_id}, {header.created_utc}"),
        ("cells", f"{len(record.cells)}"),
    ]
    if record.torn_line is not None:
        facts.append(("torn", f"line {record.torn_line} is cut off and was passed over"))
    events = [event for event in record.events if event.event in ("failed", "interrupted", "resumed")]
    facts += [(event.event, f"process {event.process}: {event.detail or 'no detail'}") for event in events]
    return facts


def _device(source: Source) -> Facts:
    device = source.header.device
    facts = [("device", "none named")]
    if device:
        facts = [
            ("device", f"{device.name}, compute capability {device.compute_capability}, {device.sm_count} SMs"),
            ("uuid", device.uuid),
            ("driver", device.driver),
        ]
    return facts + [(name, version) for name, version in source.header.software.items()]


def _sources(source: Source) -> Facts:
    header = source.header
    state = {
        "fresh": "those of today",
        "none": "no kernel sources: nothing was hashed",
    }.get(source.freshness.state, source.freshness.line or "")
    return [
        ("commit", header.git_commit + (" with local changes" if header.git_dirty else "")),
        ("kernel sources", f"{header.source_hash}: {state}"),
        ("files", ", ".join(header.sources) or "not named"),
        ("flags", " ".join(header.build_flags) or "none"),
    ]


def _clocks(source: Source) -> Facts:
    clocks = source.header.clocks
    facts = [
        ("asked", clocks.requested),
        ("done", judged_label(source.record)),
        ("measured", source.clocks.rpartition(", ")[2].removesuffix(" measured")),
    ]
    shapes = [found.clock for found in source.analysis.diagnostics if found.clock]
    for shape in shapes:
        words = [word for word, holds in (("two states", shape.bimodal), ("ramps", shape.ramping)) if holds]
        facts.append(("shape", ", ".join(words) or "steady"))
    cells = source.record.cells
    for label, unit, values in (
        ("temperature", "°C", [cell.temperature_c for cell in cells]),
        ("power", "W", [cell.power_w for cell in cells]),
    ):
        facts.append((label, _range(np.array(values, dtype=np.float64), unit)))
    reasons = sorted({reason for cell in cells for reason in cell.throttle_reasons})
    facts.append(("throttle reasons", ", ".join(reasons) or "none seen"))
    return facts


def _range(values: Floats, unit: str) -> str:
    values = values[np.isfinite(values)]
    return f"{values.min():.0f}–{values.max():.0f} {unit}" if len(values) else "not measured"


def _design(source: Source) -> Facts:
    header, grid = source.header, source.prepared.grid
    used = int(grid.accepted.any(axis=1).sum())
    workload = ", ".join(f"{key} {value}" for key, value in header.workload.items())
    return [
        ("processes", f"{used} used of {header.processes} planned"),
        ("blocks", f"{header.blocks} a process, {int(grid.accepted.sum())} accepted in all"),
        ("arms", f"{len(grid.arms)}, in balanced random order from seed {header.seed}"),
        ("launches", "chosen by the arm" if header.launches is None else f"{header.launches} a cell"),
        ("reference", f"{header.reference}; twin: {header.twin or 'none'}"),
        ("declared", f"{len(header.comparisons)} comparisons; margin of equivalence ±{header.margin_percent:g} %"),
        ("L2", header.l2_mode),
        ("workload", workload or "none stated"),
    ]


def shown(source: Source, fmt: Format) -> str:
    """The page as text: terminal, Markdown, or JSON; CSV is ``export``'s and not offered."""
    page = sections(source)
    if fmt == "json":
        return to_json({"record": source.shown_as, "sections": [_plain(section) for section in page]}) + "\n"
    parts = []
    for section in page:
        facts = [{"what": label, "is": text} for label, text in section.facts]
        if fmt == "md":
            listed = "".join(f"- {told(f'{label}: {text}', fmt)}\n" for label, text in section.facts)
            parts.append(f"## {section.title}\n\n{listed}")
        else:
            width = max((len(row["what"]) for row in facts), default=0)
            lines = "".join(wrapped(f"  {row['what']:<{width}}  {row['is']}", width + 2) + "\n" for row in facts)
            parts.append(f"{section.title}\n{lines}")
        if section.table and section.table.rows:
            text = render(section.table.columns, section.table.rows, fmt)
            note = told(section.table.note_for(fmt), fmt)
            note = f"{note}\n" if note else ""
            parts[-1] += ("\n" if fmt == "md" and facts else "") + text + ("\n" if fmt == "md" else "") + note
    return "\n".join(parts)


def _plain(section: Section) -> dict[str, Any]:
    rows: list[Mapping[str, Any]] = list(section.table.rows) if section.table else []
    return {
        "title": section.title,
        "facts": [{"label": label, "text": text} for label, text in section.facts],
        "note": section.table.note if section.table else None,
        "rows": rows,
    }
