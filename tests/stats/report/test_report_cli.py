"""The commands as a user runs them: golden outputs, one line and status 2 for bad input, files whole or absent."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from stats.base.files import write_whole
from tests.commands import Command
from tests.makers.page_files import put_pages
from tests.makers.report_records import gemm_record, make_record, micro_record, usual, written

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: Command) -> Command:
    """bench-stats in a folder with records; returns status, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    Path("results").mkdir()
    usual(micro_record, Path("results/micro.jsonl"))
    usual(gemm_record, Path("results/gemm.jsonl"))
    return partial(run_command, "bench-stats")


def golden(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("WRITE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("micro.txt", ["table", "results/micro.jsonl"]),
        ("gemm.md", ["table", "results/gemm.jsonl", "--format", "md"]),
        ("comparisons.txt", ["table", "results/gemm.jsonl", "--query", "comparisons"]),
        ("show.txt", ["show", "results/gemm.jsonl"]),
        ("list.txt", ["table", "results/micro.jsonl", "--list"]),
    ],
)
def test_golden(run: Command, name: str, arguments: list[str]) -> None:
    status, out, err = run(*arguments)
    assert (status, err) == (0, "")
    golden(name, out)


def test_json_holds_unrounded_numbers_of_every_record(run: Command) -> None:
    status, out, _ = run(
        "table", "results/gemm.jsonl", "results/micro.jsonl", "--query", "comparisons", "--format", "json"
    )
    assert status == 0
    whole = json.loads(out)
    assert len(whole["captions"]) == 2
    assert {row["record"] for row in whole["rows"]} == {"results/gemm.jsonl", "results/micro.jsonl"}
    row = next(row for row in whole["rows"] if (row["a"], row["b"]) == ("A2L", "A3"))
    assert row["cycles_low"] < row["cycles_percent"] < row["cycles_high"]
    assert row["cycles_verdict"] == "DIFFERENT, EQUIVALENT"


def test_csv_with_a_skipped_arm_says_why(run: Command) -> None:
    written(make_record({"a": 1.0, "b": 1.1}, tool="mine", skips={"c": "needs sm_100"}), Path("skip.jsonl"))
    status, out, _ = run("table", "skip.jsonl", "--format", "csv")
    assert status == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["arm"] for row in rows] == ["a", "b", "c"]
    assert rows[2] == {**dict.fromkeys(rows[2], ""), "record": "skip.jsonl", "device": "Example GPU", "arm": "c"} | {
        "cells": "0",
        "remark": "skipped: needs sm_100",
    }
    assert json.loads(run("table", "skip.jsonl", "--format", "json")[1])["rows"][2]["remark"] == "skipped: needs sm_100"


def test_chosen_columns(run: Command) -> None:
    status, out, _ = run("table", "results/gemm.jsonl", "--columns", "arm;tflops_mean|TF|.0f", "--format", "md")
    assert status == 0
    assert out.startswith("| kernel | TF |\n|---|---:|\n| A1 | 254 |\n")


def test_plot_writes_every_figure_it_can(run: Command) -> None:
    written(make_record({"a": 1.0}, tool="mine"), Path("one.jsonl"))
    status, out, err = run("plot", "one.jsonl", "--out", "figures", "--format", "svg")
    assert status == 0
    assert out.splitlines() == ["figures/one-ladder.svg", "figures/one-run.svg"]
    assert [line.split(":")[1] for line in err.splitlines()] == [" no figure paired", " no figure paired-time"]
    before = Path("figures/one-run.svg").read_bytes()
    assert run("plot", "one.jsonl", "--out", "figures", "--figure", "run", "--format", "png,svg")[0] == 0
    assert Path("figures/one-run.svg").read_bytes() == before
    assert Path("figures/one-run.png").read_bytes().startswith(b"\x89PNG")


def test_plot_writes_all_figures_or_none(run: Command) -> None:
    """Without accepted cells the ladder could be drawn, as rows that say so, and the pairs could not."""
    header_only(written(gemm_record(processes=1, blocks=2), Path("r.jsonl")))
    status, out, err = run("plot", "r.jsonl", "--out", "figures")
    assert (status, out) == (1, "")
    assert "r.jsonl" in err.splitlines()[-1]
    assert not Path("figures").exists()


def test_readme_check_statuses(run: Command) -> None:
    figures = "tables: {arms: {record: results/gemm.jsonl, table: arms}}\n"
    put_pages(Path(), figures, readme="{{ table('arms') }}\n\n5 % more\n", method="# M\n")
    status, out, _ = run("readme", "--check")
    assert status == 1
    assert out.splitlines() == [
        "docs/pages/README.md differs:",
        "  README.md is not there",
        "README.md: 1 fields, 1 differ, 0 stale",
        "docs/pages/method.md differs:",
        "  docs/method.md is not there",
        "docs/method.md: 0 fields, 1 differ, 0 stale",
    ]
    assert not Path("README.md").exists()
    assert run("readme") == (0, "README.md\ndocs/method.md\n", "")
    assert run("readme", "results")[:2] == (0, "")
    same = "README.md: 1 fields, 0 differ, 0 stale\ndocs/method.md: 0 fields, 0 differ, 0 stale\n"
    assert run("readme", "--check") == (0, same, "")
    status, out, _ = run("readme", "--check", "--untraced")
    assert status == 1
    assert "docs/pages/README.md:3: '5 %' is typed in; give it a field\n" in out
    Path("README.md").write_text(Path("README.md").read_text().replace("| A1 |", "| A9 |"))
    status, out, _ = run("readme", "--check")
    assert status == 1
    assert out.splitlines()[:2] == ["docs/pages/README.md:1: {{ table('arms') }} differs:", "  README.md:5"]
    assert run("readme", "--strict")[0] == 2


def test_readme_check_fails_on_stale_only_when_strict(run: Command) -> None:
    written(gemm_record(source_hash="0" * 16), Path("results/old.jsonl"))
    put_pages(Path(), "tables: {arms: {record: results/old.jsonl, table: arms}}\n", readme="{{ table('arms') }}\n")
    status, out, _ = run("readme")
    assert status == 0
    assert "STALE" in out
    status, out, _ = run("readme", "--check")
    assert status == 0
    assert out.endswith("1 fields, 0 differ, 1 stale\n")
    assert run("readme", "--check", "--strict")[0] == 1


def test_other_devices_are_said_and_never_mixed(run: Command) -> None:
    device = gemm_record().header.device
    assert device is not None
    written(gemm_record(device=device.model_copy(update={"name": "Another GPU"})), Path("other.jsonl"))
    status, out, err = run("table", "results/gemm.jsonl", "other.jsonl", "--format", "csv")
    assert status == 0
    assert err.startswith("bench-stats: the records come from different devices (Example GPU, Another GPU)")
    assert {row["device"] for row in csv.DictReader(io.StringIO(out))} == {"Example GPU", "Another GPU"}


def test_torn_record_is_told_and_used(run: Command) -> None:
    whole = Path("results/gemm.jsonl").read_bytes()
    Path("torn.jsonl").write_bytes(whole[:-40])
    status, out, err = run("show", "torn.jsonl")
    assert status == 0
    last = len(whole.splitlines())
    assert err == f"bench-stats: torn.jsonl: line {last} is cut off and was passed over\n"
    assert "is cut off and was passed over" in out


def newer(path: Path) -> None:
    path.write_text(path.read_text().replace('"schema_version":1', '"schema_version":99', 1))


def header_only(path: Path) -> None:
    path.write_text(path.read_text().splitlines()[0] + "\n")


@pytest.mark.parametrize(
    ("spoil", "arguments", "message"),
    [
        (newer, ["table", "r.jsonl"], "r.jsonl: written with record schema 99, this version reads up to 1"),
        (newer, ["report", "r.jsonl", "--html", "out.html"], "r.jsonl: written with record schema 99"),
        (
            lambda path: path.write_text(""),
            ["show", "r.jsonl"],
            "r.jsonl: empty, so not a record; give a .jsonl",
        ),
        (lambda path: path.write_text("{"), ["plot", "r.jsonl"], "r.jsonl:1: the header line is cut off"),
        (Path.unlink, ["export", "r.jsonl", "--out", "out.csv"], "r.jsonl: cannot be read (No such file or directory)"),
        (header_only, ["plot", "r.jsonl", "--figure", "run"], "r.jsonl: holds no cell"),
        (None, ["table", "r.jsonl", "--query", "nix"], "query 'nix': r.jsonl has the tables gemm, comparisons"),
        (None, ["table", "r.jsonl", "--format", "xml"], "--format 'xml': choose from table, md, csv, json"),
        (None, ["table", "r.jsonl", "--columns", "nix"], "columns: no 'nix'; there are arm"),
        (None, ["table", "r.jsonl", "--columns", "tflops_mean|x|.1q"], "spec '.1q': does not format"),
        (None, ["table", "r.jsonl", "--columns", "arm|kernel|.2f"], "spec '.2f': does not format 'A1'"),
        (None, ["plot", "r.jsonl", "--figure", "nix"], "figure 'nix': r.jsonl has the figures ladder"),
        (None, ["plot", "r.jsonl", "--format", "pdf"], "--format 'pdf': choose from png, svg"),
        (None, ["show", "r.jsonl", "--format", "csv"], "--format 'csv': choose from table, md, json"),
        (None, ["export", "r.jsonl", "--form", "xls"], "--form 'xls': choose from csv, pandas"),
        (None, ["export", "r.jsonl", "--out", "r.jsonl/x"], "r.jsonl/x: there is no folder r.jsonl; make it first"),
        (None, ["readme", "absent"], "absent: neither it nor a folder above it holds docs/pages/figures.yaml"),
        (None, ["table"], "Missing argument 'RECORD...'"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    run: Command, spoil: Callable[[Path], object] | None, arguments: list[str], message: str
) -> None:
    path = written(gemm_record(processes=1, blocks=2), Path("r.jsonl"))
    if spoil is not None:
        spoil(path)
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert message in err
    assert not Path("out.html").exists()
    assert not Path("out.csv").exists()


def test_one_arm_has_levels_but_nothing_to_compare(run: Command) -> None:
    written(make_record({"a": 1.0}, tool="mine"), Path("one.jsonl"))
    status, out, err = run("table", "one.jsonl", "--query", "comparisons")
    assert (status, out) == (2, "")
    assert err == "bench-stats: one.jsonl: nothing to compare, its arms with cells are: a; record two or more\n"
    assert run("table", "one.jsonl")[0] == 0
    assert run("show", "one.jsonl")[0] == 0


def test_nothing_accepted_prints_reasons_and_no_nan(run: Command) -> None:
    throttled = {(process, block): "HwSlowdown" for process in range(2) for block in range(4)}
    written(gemm_record(processes=2, blocks=4, throttled=throttled), Path("none.jsonl"))
    for arguments in (["show", "none.jsonl"], ["show", "none.jsonl", "--format", "json"]):
        status, out, err = run(*arguments)
        assert status == 1
        assert err == "bench-stats: none.jsonl: 0 accepted of 8 whole blocks (HwSlowdown: 8)\n"
        assert "0 accepted of 8 whole blocks" in out
        assert "nan" not in out.replace("nanosecond", "").lower().split()
    assert run("table", "none.jsonl", "--query", "comparisons")[0] == 1
    status, out, err = run("table", "none.jsonl")
    assert (status, err) == (1, "bench-stats: none.jsonl: 0 accepted of 8 whole blocks (HwSlowdown: 8)\n")
    assert "GEMM" in out
    assert run("report", "none.jsonl", "--html", "none.html")[0] == 1
    assert "0 accepted of 8 whole blocks" in Path("none.html").read_text()
    status, out, err = run("export", "none.jsonl")
    assert (status, err) == (1, "bench-stats: none.jsonl: 0 accepted of 8 whole blocks (HwSlowdown: 8)\n")
    assert len(out.splitlines()) == 1 + 8 * 6


@pytest.mark.parametrize("record", ["gemm", "one arm"])
def test_a_record_without_a_cell_is_said_by_every_command(run: Command, record: str) -> None:
    whole = gemm_record(processes=1, blocks=2) if record == "gemm" else make_record({"a": 1.0}, tool="mine")
    header_only(written(whole, Path("r.jsonl")))
    for arguments in (["table"], ["show"], ["plot"], ["export"], ["report", "--html", "out.html"]):
        status, out, err = run(arguments[0], "r.jsonl", *arguments[1:])
        assert (status, "r.jsonl: 0 accepted of 0 whole blocks" in err.splitlines()[-1]) == (1, True), arguments
        assert "nan" not in out


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; import stats.cli.app; "
        "print([name for name in ('numpy', 'scipy', 'matplotlib', 'torch', 'micro') if name in sys.modules])"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout == "[]\n"


OUTPUTS = {"report": ["report", "r.jsonl", "--html"], "export": ["export", "results/gemm.jsonl", "r.jsonl", "--out"]}


@pytest.mark.parametrize("arguments", OUTPUTS.values(), ids=OUTPUTS)
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("r.jsonl", "is one of the records; choose another file"),
        ("./results/../r.jsonl", "is one of the records"),
        ("soft.html", "is one of the records"),
        ("hard.html", "is one of the records"),
        ("results/micro.jsonl", "exists already and may be a record"),
        ("results", " results: is a folder; give the name of a file"),
        ("", " '.': an empty name, or the folder here; give the name of a file"),
    ],
)
def test_an_output_never_replaces_a_record(run: Command, arguments: list[str], name: str, why: str) -> None:
    path = written(gemm_record(processes=1, blocks=2), Path("r.jsonl"))
    Path("soft.html").symlink_to("r.jsonl")
    os.link("r.jsonl", "hard.html")
    before = path.read_bytes(), Path("results/micro.jsonl").read_bytes()
    status, out, err = run(*arguments, name)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"bench-stats: {arguments[-1]} ")
    assert why in err
    assert (path.read_bytes(), Path("results/micro.jsonl").read_bytes()) == before


@pytest.mark.parametrize("arguments", OUTPUTS.values(), ids=OUTPUTS)
def test_an_output_replaces_one_of_an_earlier_run(run: Command, arguments: list[str]) -> None:
    written(make_record({"a": 1.0, "b": 1.1}, tool="mine", processes=2, blocks=2), Path("r.jsonl"))
    assert run(*arguments, "fresh.out")[0] == 0
    before = Path("fresh.out").read_bytes()
    assert run(*arguments, "fresh.out")[0] == 0
    assert Path("fresh.out").read_bytes() == before


@pytest.mark.parametrize("command", ["show", "compare"])
def test_lines_of_prose_keep_to_the_terminal(run: Command, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    whole = " ".join(run(command, "results/gemm.jsonl")[1].split())
    monkeypatch.setenv("COLUMNS", "60")
    _, out, _ = run(command, "results/gemm.jsonl")
    # The tables of `show` may be wider than a terminal of this width; its prose and all of its facts are not.
    prose = [line for line in out.splitlines() if "first arm" in line.lower() or "commit" in line]
    assert prose
    assert max(map(len, prose)) <= 60
    assert any(line.startswith("  ") for line in out.splitlines())
    told = " ".join(out.split()).replace(" – ", " ")  # another column, between lines of the last warning
    ending = whole.replace(" – ", " ")[-100:]
    assert told.endswith(ending)
    _, markdown, _ = run(command, "results/gemm.jsonl", "--format", "md")
    monkeypatch.setenv("COLUMNS", "160")
    assert run(command, "results/gemm.jsonl", "--format", "md")[1] == markdown


def test_what_is_no_regular_file_is_written_to_and_never_replaced(tmp_path: Path) -> None:
    """A pipe stands for /dev/null, which root would lose to a rename."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with open(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        assert write_whole(pipe, b"table")
        assert reader.read() == b"table"
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]
