"""Marks that are missing, doubled, nested or misspelt are errors that name the line; marks in code are examples."""

from __future__ import annotations

import pytest

from stats.errors import UserError
from stats.report.marks import parse_marks

TABLE = "<!-- bench:table record=r.jsonl query=arms -->"
END = "<!-- /bench:table -->"
VALUE = "<!-- bench:value record=r.jsonl query=arms column=cells -->"


def test_blocks_in_order_with_attributes_and_content() -> None:
    text = (
        f'a\n{TABLE}\nold\n{END}\nb {VALUE}3<!-- /bench:value --> c <!--bench:given source="a b"-->9<!--/bench:given-->'
    )
    blocks = parse_marks(text, "p")
    assert [(block.kind, block.line, text[block.start : block.end]) for block in blocks] == [
        ("table", 2, "\nold\n"),
        ("value", 5, "3"),
        ("given", 5, "9"),
    ]
    assert blocks[0].attributes == {"record": "r.jsonl", "query": "arms"}
    assert blocks[2].attributes == {"source": "a b"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"x\n{TABLE}\n", r"p:2: bench:table has no end mark"),
        (f"x\n\n{END}\n", r"p:3: /bench:table ends nothing"),
        (f"{TABLE}\n{TABLE}\n{END}\n{END}\n", r"p:2: bench:table begins inside the bench:table of line 1"),
        (f"{TABLE}\n{END}\n{END}\n", r"p:3: /bench:table ends nothing: its begin mark is missing, or it is doubled"),
        (
            f"{TABLE}\n{VALUE}<!-- /bench:value -->\n{END}\n",
            r"p:2: bench:value begins inside the bench:table of line 1",
        ),
        (f"{TABLE}\n<!-- /bench:value -->\n", r"p:2: /bench:value ends the bench:table of line 1"),
        ("<!-- bench:tabel record=r query=q -->", r"p:1: bench:tabel is unknown; the kinds are table, figure"),
        ("<!-- bench: -->", r"p:1: bench: is unknown"),
        ("a\n<!-- bench:table record=r", r"p:2: the mark has no '-->'"),
        (f"<!-- bench:table record=r \n{TABLE}", r"p:1: the mark has no '-->'"),
        (f"<!-- bench:table record=r -->{END}", r"p:1: bench:table: lacks query="),
        (f"<!-- bench:table record= query=q -->{END}", r"p:1: bench:table: lacks record="),
        (f"<!-- bench:table record=r query=q row=a b -->{END}", r"p:1: bench:table: 'b' is not key=value"),
        (f"<!-- bench:table record=r query=q query=q -->{END}", r"p:1: bench:table: query is given twice"),
        (f"<!-- bench:table record=r query=q colour=red -->{END}", r"colour is unknown; it takes record, query, row"),
        (f'<!-- bench:table record="r query=q -->{END}', r"p:1: bench:table: no closing quotation; close the quotes"),
        (f"{TABLE}<!-- /bench:table record=r -->", r"p:1: /bench:table takes no attributes"),
    ],
)
def test_bad_marks_name_the_line(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_marks(text, "p")


@pytest.mark.parametrize(
    "text",
    [
        f"```\n{TABLE}\n```\n",
        f"~~~ html\n{TABLE}\n```\n~~~\n",
        f"  ````md\n```\n{END}\n````\n",
        f"Write `{TABLE}` first.",
        f"``a ` {END}``",
        f"```\n{TABLE}\n",  # a fence without an end reaches to the end of the page
        "<!-- a comment of somebody else's, bench marks or not -->",
        "<!-- benchmark:table -->",
    ],
)
def test_code_and_foreign_comments_hold_no_marks(text: str) -> None:
    assert parse_marks(text, "p") == []


def test_code_before_a_mark_hides_nothing_after_it() -> None:
    blocks = parse_marks(f"```\n{TABLE}\n```\n`x` {VALUE}1<!-- /bench:value --> `y`\n{TABLE}\n{END}", "p")
    assert [(block.kind, block.line) for block in blocks] == [("value", 4), ("table", 5)]
