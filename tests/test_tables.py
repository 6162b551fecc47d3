"""A table in a narrow terminal may break its headings, never a figure, and never loses a column."""

from __future__ import annotations

import pytest

from stats.tables import Column, render

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
