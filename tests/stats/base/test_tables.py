"""A table in a narrow terminal may break its headings, never a figure, and never loses a column."""

from __future__ import annotations

import pytest

from stats.base.tables import Column, render, wrapped

COLUMNS = [
    Column("name", "name", align="left"),
    Column("first", "a heading of many words", ".3f"),
    Column("second", "another heading"),
]
ROWS = [{"name": "one and the same", "first": 12345.678, "second": 1234567890123}]


@pytest.mark.parametrize("width", ["20", "40", "80", "200"])
def test_no_figure_is_broken_and_no_column_lost(monkeypatch, width):
    monkeypatch.setenv("COLUMNS", width)
    last = render(COLUMNS, ROWS, "table", title="a title").splitlines()[-1]
    assert last.split() == ["one", "and", "the", "same", "12345.678", "1234567890123"]


def test_headings_break_only_when_they_must(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert "a heading of many words" in render(COLUMNS, ROWS, "table")
    monkeypatch.setenv("COLUMNS", "40")
    assert "a heading of many words" not in render(COLUMNS, ROWS, "table")


def test_a_long_line_is_broken_at_the_terminals_width_with_a_hanging_indent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    line = "  [code] A1/A3 in time: " + "a word of it " * 8 + "w" * 50
    lines = wrapped(line).splitlines()
    assert lines[0].startswith("  [code] A1/A3")
    assert all(one.startswith("    ") and not one.startswith("     ") for one in lines[1:])
    assert max(map(len, lines[:-1])) <= 40
    assert lines[-1] == "    " + "w" * 50  # a word is never broken: names are copied from here
    assert " ".join(" ".join(lines).split()) == " ".join(line.split())
    assert wrapped("") == ""


def test_prose_gives_way_until_the_table_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [
        Column("arm", "arm", align="left"),
        Column("cycles", "cycles"),
        Column("why", "why", align="left"),
        Column("rule", "rule", align="left"),
    ]
    why, rule = "the port is the ceiling that binds at 12 % of the time, " * 3, "twice as fast would save 5 % " * 4
    rows = [{"arm": "A1", "cycles": "57.196 ±0.009", "why": why, "rule": rule}]
    for width in (60, 80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        lines = render(columns, rows, "table").splitlines()
        assert max(map(len, lines)) <= width
        assert not any(line.lstrip().startswith("%") for line in lines)  # a figure stays with its sign
        shown = " ".join(" ".join(lines[2:]).split())
        assert "57.196 ±0.009" in shown
        assert shown.count("ceiling") == 3
        assert shown.count("save") == 4


@pytest.mark.parametrize(
    ("value", "spec", "text"),
    [
        (-0.003, "+.2f", "-0.003"),
        (0.04, "+.1f", "+0.04"),
        (0.0, "+.1f", "+0.0"),
        (-1e-17, "+.2f", "+0.00"),
        (1234.4, ",.0f", "1,234"),
        (12.0, ".3g", "12"),
    ],
)
def test_what_is_not_zero_does_not_read_as_zero(value: float, spec: str, text: str) -> None:
    assert Column("x", "x", spec).text({"x": value}) == text
    assert Column("x", "x", spec).text({"x": -value}).lstrip("+-") == text.lstrip("+-")


def test_a_column_without_a_text_and_prose_beside_it_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    columns = [Column("told", "told", align="left"), Column("none", "", align="left")]
    assert max(map(len, render(columns, [{"told": "a word of it " * 9, "none": ""}], "table").splitlines())) <= 30


def test_columns_that_give_way_are_named_and_only_those_shown_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [
        Column("arm", "arm", align="left"),
        Column("cycles", "cycles", legend="of a launch"),
        Column("more", "more", min_width=60, legend="said elsewhere, too"),
    ]
    rows = [{"arm": "a" * 20, "cycles": "1" * 15, "more": "2" * 10}]
    monkeypatch.setenv("COLUMNS", "40")
    narrow = render(columns, rows, "table")
    assert "cycles: of a launch" in narrow
    assert "more columns from 60 columns on: more" in narrow
    assert "elsewhere" not in narrow
    assert "2" * 10 not in narrow
    monkeypatch.setenv("COLUMNS", "50")  # narrower than min_width, but there is room
    wide = render(columns, rows, "table")
    assert "2" * 10 in wide
    assert "more: said elsewhere, too" in wide
    assert "more columns" not in wide
    assert "elsewhere" not in render(columns, rows, "md")


def test_a_table_too_wide_falls_into_several_with_the_same_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    columns = [Column("arm", "arm", align="left"), *(Column(f"c{i}", f"c{i}") for i in range(6))]
    rows = [{"arm": f"arm {arm}", **{f"c{i}": f"{arm}{i}" * 6 for i in range(6)}} for arm in (1, 2)]
    text = render(columns, rows, "table")
    assert max(map(len, text.splitlines())) <= 40
    assert text.count("arm 2") == 3
    assert all(text.count(f"{arm}{i}" * 6) == 1 for arm in (1, 2) for i in range(6))


def test_a_long_name_breaks_after_a_slash_or_a_plus_once_nothing_else_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "ld.shared.b32/n24+cp.async/c1+mma"
    columns = [Column("arm", "arm", align="left"), Column("cycles", "cycles"), Column("base", "base", align="left")]
    rows = [{"arm": name, "cycles": "12.345 ±0.001", "base": name}]
    for width, lines in ((80, 1), (60, 2)):
        monkeypatch.setenv("COLUMNS", str(width + 1))
        shown = render(columns, rows, "table").splitlines()[2:]
        assert len(shown) == lines
    assert shown[0].split() == ["ld.shared.b32/n24+", "12.345", "±0.001", "ld.shared.b32/n24+"]
    assert shown[1].split() == ["cp.async/c1+mma", "cp.async/c1+mma"]
