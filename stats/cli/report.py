"""``bench-stats table|plot|readme|show|export|report``: from records to readers, without a GPU or torch.

Every command prints to stdout or writes whole files; what it could not make of a record is said on stderr. Imports that
cost time happen inside the commands.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stats.base.errors import BenchError, UserError, choice, say
from stats.base.safe_text import safe_lines, safe_text
from stats.cli import options

if TYPE_CHECKING:
    from stats.report.model import Table
    from stats.report.source import Source


RECORDS = typer.Argument(..., metavar="RECORD...", help="Records (JSON Lines).")
RECORD = typer.Argument(..., metavar="RECORD", help="A record (JSON Lines).")


def register(app: typer.Typer) -> None:
    """Add the commands of this module to ``app``."""
    for command in (table, plot, readme, show, export, report):
        app.command()(command)


def _sources(records: list[Path]) -> list[Source]:
    """The records, each once; what is wrong with one, and that several devices are among them, goes to stderr."""
    from stats.report.source import Library

    library = Library()
    sources = [library.source(path) for path in dict.fromkeys(records)]
    for source in sources:
        if source.record.torn_line is not None:
            _say(f"{source.shown_as}: line {source.record.torn_line} is cut off and was passed over")
    devices = list(dict.fromkeys(source.header.device.name if source.header.device else "none" for source in sources))
    if len(devices) > 1:
        _say(f"the records come from different devices ({', '.join(devices)}): nothing of one is set against another")
    return sources


def _say(line: str) -> None:
    say(f"bench-stats: {line}")


def _need_accepted(sources: Sequence[Source]) -> None:
    """Raise BenchError for a record of which no block was accepted, so that what was printed holds no figure."""
    from stats.report.comparisons import zero_accepted

    for source in sources:
        if source.prepared.exclusion.accepted == 0:
            raise BenchError(zero_accepted(source))


def _deliver(text: str, out: Path | None) -> None:
    if out is None:
        sys.stdout.write(text)
        return
    from stats.base.files import write_whole

    write_whole(out, safe_lines(text).encode("utf-8"))


def table(
    ctx: typer.Context,
    records: list[Path] = RECORDS,
    query: str = typer.Option(None, "--query", help="Which table; default: that of the record's tool."),
    columns: str = typer.Option(
        "", "--columns", metavar="KEY;KEY|HEADING|FORMAT", help="Columns instead of the usual."
    ),
    fmt: options.Format = "table",
    list_queries: bool = typer.Option(False, "--list", help="Name the tables and their keys instead."),
) -> None:
    """Print a table of each record."""
    import dataclasses

    from stats.report.json_tables import columns_of
    from stats.report.queries import build_table, main_table

    if list_queries:
        options.refuse_beside(ctx, "--list", "names the tables alone", "records")
    sources = _sources(records)
    if list_queries:
        sys.stdout.write("".join(_listed(source) for source in sources))
        return
    found = []
    for source in sources:
        made = build_table(source, query or main_table(source))
        if columns:
            made = dataclasses.replace(made, columns=columns_of(columns, made.rows, made.columns))
        found.append((source, made))
    sys.stdout.write(_tables(found, fmt))
    _need_accepted(sources)


def _listed(source: Source) -> str:
    from stats.base.tables import fitted
    from stats.report.figures.data import figure_names
    from stats.report.queries import build_table, table_names

    lines = [f"{source.shown_as}\n"]
    for name in table_names(source):
        try:
            keys = dict.fromkeys(key for row in build_table(source, name).rows for key in row)
        except BenchError as error:
            lines.append(fitted(f"  table {name}: {error}") + "\n")
        else:
            lines.append(fitted(f"  table {name}: {', '.join(keys) or 'no rows'}") + "\n")
    lines.append(fitted(f"  figures: {', '.join(figure_names(source))}") + "\n")
    return "".join(lines)


def _tables(found: Sequence[tuple[Source, Table]], fmt: Any) -> str:
    """Several tables as text: one after the other for readers, as rows of one table with their record for programs."""
    from stats.base.tables import Column, render, told
    from stats.record.freshness import marked

    if fmt in ("table", "md"):
        blocks = []
        for source, made in found:
            stale = f"{told(source.freshness.line, fmt)}\n\n" if source.freshness.line else ""
            below = [line for line in (made.note_for(fmt), source.caption) if line]
            end = "".join(told(line, fmt) + ("  \n" if fmt == "md" else "\n") for line in below)
            blocks.append(f"{stale}{render(made.columns, made.rows, fmt, title=made.title)}\n{end}")
        return "\n".join(blocks)
    columns = {column.key: column for _, made in found for column in made.columns}
    origin = [Column("record", "record"), Column("device", "device")]
    rows = []
    for source, made in found:
        device = source.header.device
        name = {"record": source.shown_as, "device": device.name if device else None}
        rows += [name | dict(row) for row in made.rows]
    if fmt == "json":
        keys = dict.fromkeys([*columns, *(key for row in rows for key in row)])
        columns = {key: columns.get(key, Column(key, key)) for key in keys if key not in ("record", "device")}
    extra = {"captions": [source.caption for source, _ in found], "notes": [made.note for _, made in found]}
    extra["stale"] = [source.freshness.line or "" for source, _ in found]
    text = render([*origin, *columns.values()], rows, fmt, extra=extra)
    return marked(text, fmt, [(source.shown_as, source.freshness) for source, _ in found])


def plot(
    records: list[Path] = RECORDS,
    figure: str = typer.Option("all", "--figure", help="Which figure, or all that the record can show."),
    out: Annotated[Path, options.out_folder("--out", "FOLDER", "Where the files go.")] = Path("figures"),
    fmt: str = typer.Option("png,svg", "--format", metavar="png|svg|png,svg", help="Kinds of file."),
) -> None:
    """Draw the figures of each record as RECORD-FIGURE.png and .svg."""
    from stats.base.files import write_whole
    from stats.report.figures.data import build_figure, caption_of, figure_names
    from stats.report.figures.draw import image
    from stats.report.figures.style import IMAGE_FORMATS
    from stats.report.model import NotInRecord

    formats = [choice("--format", part.strip(), IMAGE_FORMATS) for part in fmt.split(",")]
    drawn: list[tuple[Path, bytes]] = []  # all of them before the first is written
    sources = _sources(records)
    for source in sources:
        for name in figure_names(source) if figure == "all" else [figure]:
            try:
                data = build_figure(source, name)
            except NotInRecord as missing:
                if figure != "all":
                    raise
                _say(f"no figure {name}: {missing}")
                continue
            for kind in formats:
                title = safe_text(f"{source.record.name}-{name}")
                drawn.append((out / f"{title}.{kind}", image(title, data, caption_of(source, data), kind)))
    for path, content in drawn:
        write_whole(path, content)
        sys.stdout.write(f"{path}\n")
    _need_accepted(sources)


def readme(
    folder: Path = typer.Argument(Path(), metavar="FOLDER", help="A checkout, or a folder in it."),
    check: bool = typer.Option(False, "--check", help="Change nothing; exit 1 if a page is not what its figures give."),
    strict: bool = typer.Option(False, "--strict", help="With --check: a stale figure fails, too."),
    untraced: bool = typer.Option(False, "--untraced", help="With --check: a figure typed into a template fails, too."),
) -> None:
    """Make README.md and docs/ from the templates in docs/pages and the records they name, or check them."""
    from stats.base.tables import fitted
    from stats.report.readme import find_folder, read_pages, write_pages

    for option, given in (("--strict", strict), ("--untraced", untraced)):
        if given and not check:
            raise UserError(f"{option}: only says something with --check")
    root = find_folder(folder)
    pages = read_pages(root)
    if not check:
        for path in write_pages(pages):
            sys.stdout.write(f"{path}\n")
    failed = False
    for page in pages:
        findings = page.findings()
        for finding in findings:
            if finding.differs:
                indented = finding.differs.replace("\n", "\n  ")
                sys.stdout.write(fitted(f"{finding.where} differs:") + f"\n  {indented}\n")
            if finding.stale:
                sys.stdout.write(fitted(f"{finding.where}: {finding.stale}") + "\n")
        loose = page.untraced if untraced else []
        for one in loose:
            said = f"{page.template}:{one.line}: {one.text!r} is typed in; give it a field"
            sys.stdout.write(fitted(said) + "\n")
        differs = sum(bool(finding.differs) for finding in findings)
        stale = sum(finding.stale is not None for finding in findings)
        failed = failed or bool(differs or loose or (strict and stale))
        if check:
            counted = f"{page.path}: {len(page.fields)} fields, {differs} differ, {stale} stale"
            sys.stdout.write(fitted(counted) + "\n")
    if check and failed:
        raise typer.Exit(1)


def show(
    records: list[Path] = RECORDS,
    fmt: str = typer.Option("table", "--format", metavar="table|md|json", help="Form of the page."),
) -> None:
    """Print what a reviewer would ask of a record: device, clocks, exclusions, A/A, warnings."""
    from stats.report.show import shown

    form = choice("--format", fmt, ("table", "md", "json"))
    sources = _sources(records)
    sys.stdout.write("\n".join(shown(source, form) for source in sources))
    _need_accepted(sources)


def export(
    records: list[Path] = RECORDS,
    form: str = typer.Option("csv", "--form", metavar="csv|pandas", help='pandas: read_json(path, orient="table").'),
    out: Annotated[Path | None, options.out_file("--out", "FILE", "Instead of stdout.")] = None,
) -> None:
    """Write the cells of records, one typed row each."""
    from stats.base.files import refuse_records
    from stats.record.freshness import marked
    from stats.report.export import EXPORT_FORMS, exported

    if out is not None:
        refuse_records("--out", out, records)
    sources = _sources(records)
    text = exported(sources, choice("--form", form, EXPORT_FORMS))
    _deliver(marked(text, "csv", [(source.shown_as, source.freshness) for source in sources]), out)
    _need_accepted(sources)


def report(
    html: Annotated[Path, options.out_file("--html", "OUT.html", "The file to write.")],
    records: list[Path] = RECORDS,
    title: str = typer.Option("smem-bench report", "--title", help="Heading of the page."),
) -> None:
    """Write one self-contained HTML page with the tables and figures of the records."""
    from stats.base.files import refuse_records
    from stats.report.html import html_report

    refuse_records("--html", html, records)
    sources = _sources(records)
    _deliver(html_report(sources, title), html)
    sys.stdout.write(f"{html}\n")
    _need_accepted(sources)
