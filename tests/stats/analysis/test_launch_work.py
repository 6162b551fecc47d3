"""Launches that hold unlike amounts of work are not compared: one line says so, and which command compares the work."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stats.analysis.compare import analyse
from stats.analysis.launch_work import unlike_launches
from stats.analysis.two_runs import compare_runs
from stats.base.errors import UserError
from stats.record.schema import CellRow, Record
from stats.report.figures.data import build_figure
from stats.report.model import NotInRecord
from stats.report.source import Source
from tests.commands import Command
from tests.makers.report_records import written
from tests.makers.synthetic import changed, make_record

STEPS = {"long": 400.0, "alike": 100.0, "base": 100.0, "base.twin": 100.0}


def record(steps: dict[str, float] = STEPS, **facts: object) -> Record:
    def with_steps(cell: CellRow) -> CellRow:
        each = cell.sm_cycles / cell.launches / steps[cell.arm]
        return replace(cell, values={"cycles_per_pass": each, "cycles_per_pass_lowest_sm": each / 2})

    made = make_record(dict.fromkeys(STEPS, 0.0), comparisons=[], tool="micro-bench contention", **facts)  # type: ignore[arg-type]
    return changed(made, with_steps)


def test_only_a_pair_of_unlike_launches_is_refused() -> None:
    made = record()
    assert unlike_launches(made, [("alike", "base")]) is None
    assert len(analyse(made, a="alike", metric="cycles").comparisons) == 1
    with pytest.raises(UserError, match=r"long: 400 times cycles_per_pass, base: 100 times"):
        analyse(made, a="long")


def test_without_declared_pairs_nothing_is_compared_but_the_rest_is_analysed() -> None:
    found = analyse(record())
    assert found.comparisons == ()
    assert found.aa
    assert [c.code for c in found.cautions if "unlike" in c.code] == ["unlike_launches"]


@pytest.mark.parametrize("figure", ["ladder", "paired", "paired-time"])
def test_no_figure_is_drawn_of_launches_of_unlike_length(figure: str) -> None:
    with pytest.raises(NotInRecord, match="launches are of unlike length"):
        build_figure(Source(record()), figure)
    assert build_figure(Source(record(dict.fromkeys(STEPS, 100.0))), figure)


def test_two_runs_of_unlike_length_are_refused() -> None:
    assert compare_runs(record(run_id="1"), record(run_id="2", seed=3)).comparisons
    with pytest.raises(UserError, match="alike: a launch is 100 times cycles_per_pass in the old record and 50 times"):
        compare_runs(record(run_id="1"), record({**STEPS, "alike": 50.0}, run_id="2"))


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return written(record(), tmp_path / "made.jsonl")


def test_compare_names_the_command_in_one_line(saved: Path, run_command: Command) -> None:
    status, out, err = run_command("bench-stats", "compare", saved)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert f"micro-bench contention --record {saved}" in err


def test_show_says_it_in_place_of_the_comparisons(saved: Path, run_command: Command) -> None:
    status, out, _ = run_command("bench-stats", "show", saved, "--format", "md")
    assert status == 0
    assert "long against base" not in out
    assert "- none: launches are of unlike length" in out
    assert "per launch, and launches are of unlike length" in out


def test_the_same_run_twice_is_one_line(saved: Path, run_command: Command) -> None:
    copy = saved.with_name("copy.jsonl")
    copy.write_bytes(saved.read_bytes())
    status, out, err = run_command("bench-stats", "compare", saved, copy)
    assert (status, out) == (2, "")
    assert err.splitlines() == [f"bench-stats: {saved} and {copy}: are the same run; give each run once"]
