"""``bench-stats compare`` and ``plan`` from the outside: what is printed, in which form, and the exit status."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from stats.analysis.compare import analyse
from stats.analysis.compare_text import FAIL_ON, comparison_rows, exit_status, render_analysis
from stats.base.errors import UserError
from stats.base.tables import FORMATS
from stats.record.schema import CellRow
from tests.commands import Command
from tests.makers.report_records import written
from tests.makers.synthetic import make_record

ARMS = {"A1": 0.03, "A3": 0.0, "A3.twin": 0.0}
SAME = {"A2L": 0.0, "A3": 0.0, "A3.twin": 0.0}


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    folder = tmp_path_factory.mktemp("records")
    quiet = {"within": 0.001, "between": 0.0002}
    throttled = make_record(ARMS)
    throttled = replace(throttled, cells=[replace(c, throttle_reasons=("hw_slowdown",)) for c in throttled.cells])
    made = {
        "slower": make_record(ARMS, **quiet),  # type: ignore[arg-type]
        "faster": make_record({**ARMS, "A1": -0.03}, **quiet),  # type: ignore[arg-type]
        "same": make_record(SAME, **quiet),  # type: ignore[arg-type]
        "vague": make_record(SAME, within=0.1),
        "few": make_record(ARMS, processes=3),
        "throttled": throttled,
        "skipped": make_record(ARMS, skips={"A9": "needs sm_100"}),
        "flushed": make_record(ARMS, l2_mode="flushed"),
    }
    return {name: written(record, folder / f"{name}.jsonl") for name, record in made.items()}


@pytest.fixture
def cli(run_command: Command) -> Command:
    return partial(run_command, "bench-stats")


@pytest.mark.parametrize(
    ("name", "status", "said"),
    [
        ("slower", 1, "regression: A1/A3 in time, A1/A3 in cycles"),
        ("faster", 0, "nothing worse"),
        ("same", 0, "nothing worse"),
        ("vague", 2, "cannot tell: A2L/A3 in time"),
        ("few", 2, "cannot tell"),
        ("throttled", 2, "0 accepted blocks"),
    ],
)
def test_exit_status(cli: Command, records: Mapping[str, Path], name: str, status: int, said: str) -> None:
    code, out, err = cli("compare", records[name])
    assert code == status
    assert f"Exit status {status}: {said}" in out
    assert err == ""
    assert "nan" not in out


@pytest.mark.parametrize(
    ("name", "fail_on", "status"),
    [
        ("slower", "never", 0),
        ("slower", "cannot-tell", 0),
        ("slower", "material", 1),
        ("faster", "different", 1),
        ("faster", "material", 0),
        ("vague", "regression", 0),
        ("vague", "regression, cannot-tell", 2),
        ("throttled", "never", 2),
    ],
)
def test_what_fails_can_be_chosen(
    cli: Command, records: Mapping[str, Path], name: str, fail_on: str, status: int
) -> None:
    assert cli("compare", records[name], "--fail-on", fail_on)[0] == status


def test_an_equivalent_difference_is_no_regression() -> None:
    record = make_record({"A2L": 0.003, "A3": 0.0, "A3.twin": 0.0}, within=0.0005, between=0.0001)
    result = analyse(record)
    assert [verdict.value for verdict in result.comparisons[0].verdicts] == ["DIFFERENT", "EQUIVALENT"]
    assert exit_status(result) == (0, "nothing worse")
    assert exit_status(result, ["different"])[0] == 1


def test_an_unreliable_run_cannot_tell() -> None:
    record = make_record(ARMS)
    hot = replace(record, cells=[replace(c, throttle_reasons=("x",)) if c.block < 8 else c for c in record.cells])
    assert exit_status(analyse(hot), ["cannot-tell"]) == (2, "cannot tell: UNRELIABLE run")


def test_fail_on_takes_known_names_only() -> None:
    result = analyse(make_record(ARMS))
    with pytest.raises(UserError, match="regression, material"):
        exit_status(result, ["worse"])
    with pytest.raises(UserError, match="never"):
        exit_status(result, ["never", "different"])
    assert all(exit_status(result, [kind])[0] in (0, 1) for kind in FAIL_ON)


def test_the_table_shows_what_makes_it_a_claim(
    cli: Command, records: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = cli("compare", records["slower"])
    for part in (
        "DIFFERENT + MATERIAL",
        "Hodges–Lehmann attains 96.1 %",
        "clocks monitored, not locked",
        "160 accepted of 160 whole blocks in 8 of 8 processes",
        "A/A A3.twin/A3 in cycles",
        "position effect in time",
        "warm-up slope in cycles",
        "Ljung-Box",
        "Margin ±0.5 %",
        "clock 1500 MHz (measured)",
    ):
        assert part in " ".join(out.split())  # prose wraps at the terminal's width
    assert max(map(len, "\n".join(out.split("\n\n")[:2]).splitlines())) <= 80  # what the mark says, and the table


def test_excluded_cells_are_listed_per_arm(cli: Command, records: Mapping[str, Path]) -> None:
    _, out, _ = cli("compare", records["throttled"])
    assert "0 accepted of 160 whole blocks" in out
    assert "excluded: 160 blocks, hw_slowdown (cells: A1 160, A3 160, A3.twin 160)" in out


@pytest.mark.parametrize("name", ["slower", "few", "throttled", "skipped"])
def test_json_and_csv_are_valid_and_hold_no_nan(cli: Command, records: Mapping[str, Path], name: str) -> None:
    code, out, _ = cli("compare", records[name], "--format", "json")

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    plain = json.loads(out, parse_constant=refuse)
    assert plain["exit_status"] == code
    _, out, _ = cli("compare", records[name], "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == len(plain["comparisons"]) + len(plain["aa"])
    for row in rows:
        assert None not in row.values()
        assert not {"nan", "inf", "None"} & set(row.values())
        assert row["p"] != "0.0"


def test_a_skipped_arm_says_why_in_every_form(cli: Command, records: Mapping[str, Path]) -> None:
    for form in FORMATS:
        assert "needs sm_100" in cli("compare", records["skipped"], "--format", form)[1]


def test_markdown_is_one_table(cli: Command, records: Mapping[str, Path]) -> None:
    _, out, _ = cli("compare", records["slower"], "--format", "md")
    table = [line for line in out.splitlines() if line.startswith("|")]
    assert len(table) == 4
    assert len({line.count("|") for line in table}) == 1
    assert "- Exit status 1" in out


def test_options_reach_the_analysis(cli: Command, records: Mapping[str, Path]) -> None:
    _, out, _ = cli("compare", records["slower"], "--a", "A3", "--b", "A1", "--metric", "cycles", "--margin", "5%")
    rows = [line for line in out.splitlines() if line.startswith("A3/A1")]
    assert len(rows) == 3  # two tables and the autocorrelation
    assert "EQUIVALENT" in rows[0]
    assert "Margin ±5 %" in out
    assert "[margin_after_run]" in out


def test_two_records(cli: Command, records: Mapping[str, Path], tmp_path: Path) -> None:
    other = make_record(ARMS, seed=9, run_id="run-9")
    code, out, _ = cli("compare", records["slower"], written(other, tmp_path / "new.jsonl"))
    assert "A1 new/old" in out
    assert "the new run takes longer" in out
    assert "[unpaired]" in out
    assert code in (0, 2)
    code, out, err = cli("compare", records["slower"], records["flushed"])
    assert (code, out) == (2, "")
    assert err == "bench-stats: l2_mode: 'hot' in the old record, 'flushed' in the new; not comparable\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--margin", "wide"], "--margin: 'wide' is not a percentage"),
        (["--margin", "0"], "--margin: is 0"),
        (["--margin", "nan"], "--margin: is nan"),
        (["--metric", "joules"], "--metric 'joules': choose from time, cycles, both"),
        (["--format", "xml"], "--format 'xml'"),
        (["--alpha", "0.5"], "--alpha: is 0.5"),
        (["--fail-on", "worse"], "--fail-on 'worse'"),
        (["--a", "B7"], "has no arm 'B7'"),
        (["--a", "A3"], "both are 'A3'"),
        (["--no-such"], "No such option"),
    ],
)
def test_bad_options_are_one_line(cli: Command, records: Mapping[str, Path], arguments: list[str], said: str) -> None:
    code, out, err = cli("compare", records["slower"], *arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert said in err


def test_bad_files_are_one_line(cli: Command, records: Mapping[str, Path], tmp_path: Path) -> None:
    (tmp_path / "junk.jsonl").write_text("junk\n")
    for arguments in (
        ["compare", tmp_path / "none.jsonl"],
        ["compare", tmp_path / "junk.jsonl"],
        ["compare", *[records["slower"]] * 3],
        ["plan", tmp_path / "none.jsonl", "--effect", "1%"],
    ):
        code, out, err = cli(*arguments)
        assert (code, out) == (2, "")
        assert err.count("\n") == 1


def test_plan_in_every_form(cli: Command, records: Mapping[str, Path]) -> None:
    code, out, _ = cli("plan", records["slower"], "--half-width", "0.05%")
    assert code == 0
    assert "cheapest" in out
    assert "half-width 0.05 %" in out
    plain = json.loads(cli("plan", records["slower"], "--half-width", "0.05", "--format", "json")[1])
    assert any(option["recommended"] for option in plain["options"])
    rows = list(csv.DictReader(io.StringIO(cli("plan", records["slower"], "--half-width", "1", "--format", "csv")[1])))
    assert {row["processes"] for row in rows} >= {"8", "10"}
    stale, table = cli("plan", records["slower"], "--half-width", "1%", "--format", "md")[1].split("\n\n")[:2]
    assert stale.startswith("slower: recorded from kernel sources aaaa; ")
    assert table.startswith("| processes |")


def test_plan_out_of_reach_and_bad_targets(cli: Command, records: Mapping[str, Path]) -> None:
    code, out, _ = cli("plan", records["vague"], "--half-width", "0.001%")
    assert code == 2
    assert "[out_of_reach]" in out
    for arguments in ([], ["--effect", "1", "--half-width", "1"], ["--effect", "x"], ["--effect", "1", "--power", "2"]):
        code, out, err = cli("plan", records["slower"], *arguments)
        assert (code, out) == (2, "")
        assert err.count("\n") == 1


def test_rows_and_text_are_made_of_the_analysis() -> None:
    result = analyse(make_record(ARMS))
    rows = comparison_rows(result)
    assert [row["kind"] for row in rows] == ["comparison"] * 2 + ["a/a"] * 2
    assert rows[0]["effect_percent"] == result.comparisons[0].inference.effect_percent
    assert render_analysis(result, "table", (0, "x")).endswith("Exit status 0: x.\n")


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; import stats.cli.app; "
        "print([name for name in ('numpy', 'scipy', 'statsmodels', 'torch', 'matplotlib', 'pydantic') "
        "if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_module_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "stats", "--help"], capture_output=True, text=True, check=True)
    assert "compare" in done.stdout
    assert "plan" in done.stdout


def test_a_cell_is_a_cell(records: Mapping[str, Path]) -> None:
    """The record that the commands read back is the one that was made."""
    from stats.record.reader import read_record

    made, read = make_record(ARMS, within=0.001, between=0.0002), read_record(records["slower"])
    assert isinstance(read.cells[0], CellRow)
    assert analyse(read).comparisons[0].inference == analyse(made).comparisons[0].inference


def test_a_half_width_that_nothing_resolves_is_one_line(cli: Command, records: Mapping[str, Path]) -> None:
    status, out, err = cli("plan", records["slower"], "--half-width", "1e-300")
    assert (status, out) == (2, "")
    assert err == "bench-stats: --half-width: is 1e-300; no run resolves that, give 1e-06 or more\n"
