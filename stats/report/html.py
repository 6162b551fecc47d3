"""One file with everything about a set of records: tables and figures inline, nothing fetched, nothing run.

The page reads on a phone (tables scroll inside themselves), in print (sections keep together) and in a mail (one file).
The trap: figures inlined into one document share one space of ids, so each figure's ids get a prefix of their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import Any

from stats.base.errors import BenchError
from stats.base.safe_text import safe_lines
from stats.base.tables import Column
from stats.record.clock_check import judged_label
from stats.report.figures.data import build_figure, caption_of, figure_names
from stats.report.figures.draw import image
from stats.report.html_style import CSS
from stats.report.model import NotInRecord, Paired, Table
from stats.report.queries import build_table, main_table
from stats.report.show import Section, sections
from stats.report.source import Source

_PANELS = 24  # hundreds of panels in one figure take minutes and are read by nobody
_ID = re.compile(r'(?<= id=")[^"]+')
_REFERENCE = re.compile(r'(?<=href="#)[^"]+|(?<=url\(#)[^)]+')


def html_report(sources: Sequence[Source], title: str = "smem-bench report") -> str:
    """The report of ``sources`` as one HTML document; the same bytes on every run."""
    parts = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
        f"<title>{escape(title)}</title>\n<style>\n{CSS}</style>\n</head>\n<body>\n",
        f"<header><h1>{escape(title)}</h1>\n{_overview(sources)}</header>\n<main>\n",
        *(_record(source, number) for number, source in enumerate(sources, start=1)),
        "</main>\n</body>\n</html>\n",
    ]
    return safe_lines("".join(parts))


def _overview(sources: Sequence[Source]) -> str:
    rows = []
    for number, source in enumerate(sources, start=1):
        header, exclusion = source.header, source.prepared.exclusion
        used = int(source.prepared.grid.accepted.any(axis=1).sum())
        state = {"fresh": "today's", "none": "–"}.get(source.freshness.state, source.freshness.state.upper())
        rows.append(
            f'<tr><td class="left"><a href="#record-{number}">{escape(source.shown_as)}</a></td>'
            f'<td class="left">{escape(header.tool)}</td>'
            f'<td class="left">{escape(header.device.name if header.device else "–")}</td>'
            f"<td>{used}</td><td>{exclusion.accepted} of {exclusion.blocks}</td>"
            f'<td class="left">{escape(judged_label(source.record))}</td><td class="left">{state}</td></tr>\n'
        )
    heads = ("record", "tool", "device", "processes", "blocks accepted", "clocks", "sources")
    head = "".join(f'<th class="{"" if name in heads[3:5] else "left"}">{name}</th>' for name in heads)
    return (
        f'<div class="scroll"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{"".join(rows)}</tbody></table></div>\n'
    )


def _record(source: Source, number: int) -> str:
    parts = [f'<article id="record-{number}">\n<h2>{escape(source.shown_as)}</h2>\n']
    if source.freshness.line:
        parts.append(f'<p class="alert">{escape(source.freshness.line)}</p>\n')
    parts.append(f'<p class="caption">{escape(source.caption)}</p>\n')
    page = sections(source)
    by_title = {section.title: section for section in page}
    parts.append(_warnings(by_title.pop("Warnings")))
    if main_table(source) != "arms":
        try:
            parts.append(_section(Section("Results", table=build_table(source, main_table(source)))))
        except NotInRecord as missing:
            parts.append(_section(Section("Results", [("none", str(missing).partition(": ")[2])])))
    first = [title for title in by_title if title in ("Declared comparisons", "Comparisons")]
    parts += [_section(by_title.pop(title)) for title in first]
    parts.append(_figures(source, number))
    parts += [_section(section) for section in by_title.values()]
    return "".join(parts) + "</article>\n"


def _figures(source: Source, number: int) -> str:
    parts = []
    for name in figure_names(source):
        try:
            data = build_figure(source, name)
        except NotInRecord:
            continue
        except BenchError as error:
            parts.append(f'<p class="alert">{escape(name)}: {escape(str(error))}</p>\n')
            continue
        caption = caption_of(source, data)
        if isinstance(data, Paired) and len(data.panels) > _PANELS:
            caption += f" The first {_PANELS} of {len(data.panels)} comparisons; bench-stats plot draws all of them."
            data = replace(data, panels=data.panels[:_PANELS])
        svg = image(f"{source.record.name}-{name}", data, None, "svg").decode("utf-8")
        parts.append(
            f'<figure>\n<div class="scroll">{_inlined(svg, f"r{number}-{name}-", data.title)}</div>'
            f"<figcaption>{escape(caption)}</figcaption>\n</figure>\n"
        )
    return f"<section>\n<h3>Figures</h3>\n{''.join(parts)}</section>\n" if parts else ""


def _inlined(svg: str, prefix: str, label: str) -> str:
    """The SVG element alone, with its own ids, a label for screen readers and no fixed size."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = _REFERENCE.sub(lambda found: prefix + found[0], _ID.sub(lambda found: prefix + found[0], svg))
    head, rest = svg.split(">", 1)
    head = re.sub(r' (?:width|height)="[^"]*"', "", head)
    return f'{head} role="img" aria-label="{escape(label)}">{rest}'


def _warnings(section: Section) -> str:
    if section.table is None or not section.table.rows:
        return ""
    items = []
    for row in section.table.rows:
        about = f" ({row['about']})" if row.get("about") else ""
        items.append(f"<li>{escape(str(row['message']) + about)} <code>{escape(str(row['code']))}</code></li>\n")
    return f'<section>\n<h3>{escape(section.title)}</h3>\n<ul class="warnings">\n{"".join(items)}</ul>\n</section>\n'


def _section(section: Section) -> str:
    parts = [f"<section>\n<h3>{escape(section.title)}</h3>\n"]
    if section.facts:
        items = "".join(f"<dt>{escape(label)}</dt><dd>{escape(text)}</dd>\n" for label, text in section.facts)
        parts.append(f"<dl>\n{items}</dl>\n")
    if section.table and section.table.rows:
        parts.append(_table(section.table))
    return "".join(parts) + "</section>\n"


def _table(table: Table) -> str:
    head = "".join(f"<th{_aligned(column)}>{escape(column.heading)}</th>" for column in table.columns)
    body = "".join(f"<tr>{''.join(_cell(column, row) for column in table.columns)}</tr>\n" for row in table.rows)
    note = f'<p class="caption">{escape(table.note)}</p>\n' if table.note else ""
    return (
        f'<div class="scroll"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>\n{note}'
    )


def _cell(column: Column, row: Mapping[str, Any]) -> str:
    return f"<td{_aligned(column)}>{escape(column.text(row))}</td>"


def _aligned(column: Column) -> str:
    return ' class="left"' if column.align == "left" else ""
