"""Tools compared, with stand-ins for them: known noise and bias give the right table; an absent tool gives a row."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from gemm.cli.app import app
from gemm.truth.tools.comparison import fresh_process, read_tools_record, record_text, run_tools, tools_text
from gemm.truth.tools.design import DO_BENCH, NVBENCH, OURS, Design, Measured, Pair, design_from, draw_pairs, with_truth
from gemm.truth.tools.rows import regrouped
from gemm.truth.tools.worker import NVBENCH_DIED, take_turns
from stats.base.errors import BenchError, UserError
from stats.base.tables import FORMATS
from stats.report.json_tables import json_table, read_document

HOT, FLUSHED = 400_000.0, 420_000.0
BLOCKS, LAUNCHES = 40, 200
DESIGN = Design(processes=3, aa=40, repeats=40, effects_percent=(0.5, 5.0), defaults=0)


def stand_in(
    tool: str, measure: str, base: float, *, noise: float, bias: float = 0.0, seed: int = 0
) -> Callable[[Pair], list[Measured]]:
    """A tool that reads the truth, a bias, and normal noise in per cent."""
    rng = np.random.default_rng(seed)

    def compare(pair: Pair) -> list[Measured]:
        off = bias + noise * rng.standard_normal(BLOCKS) * math.sqrt(BLOCKS)
        ratios = np.log1p((100 * pair.injected_cycles / base + off) / 100)
        a = base * math.exp(float(ratios.mean()))
        return [Measured(tool, measure, pair.index, a, base, LAUNCHES, 0.25, ratios.tolist() if tool == OURS else [])]

    return compare


def worker(noise: float = 0.2, bias: float = 0.0, missing: Mapping[str, str] | None = None) -> Callable[..., Any]:
    """What a fresh process would return, with ours at 0.01 % of noise and do_bench as asked."""

    def work(job: Mapping[str, Any]) -> dict[str, Any]:
        design, process = design_from(json.loads(json.dumps(job["design"]))), job["process"]
        pairs = draw_pairs(design, process, HOT)
        tools = {
            "ours": stand_in(OURS, "SM cycles", HOT, noise=0.01, seed=process),
            DO_BENCH: stand_in(DO_BENCH, "mean", FLUSHED, noise=noise, bias=bias, seed=100 + process),
        }
        found, failed = take_turns(pairs, tools, process)
        comparisons = with_truth(process, pairs, found, {"hot": HOT, "flushed": FLUSHED})
        return {
            "device": {"name": "stand-in"},
            "software": {"triton": "3.6.0"},
            "source_hash": "none",
            "sources": [],
            "build_flags": [],
            "calibrations": [{"hot": HOT, "flushed": FLUSHED}],
            "comparisons": [asdict(one) for one in comparisons],
            "missing": {**failed, **(missing or {})},
        }

    return work


def rows_of(record: Mapping[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["tool"], row["measure"]): row for row in record["rows"]}


def test_known_noise_is_the_error_in_the_table() -> None:
    rows = rows_of(run_tools(DESIGN, worker=worker(noise=0.2)))
    ours, theirs = rows[OURS, "SM cycles"], rows[DO_BENCH, "mean"]
    assert ours["aa_comparisons"] == theirs["aa_comparisons"] == 120
    assert ours["launches"] == theirs["launches"] == LAUNCHES
    # |normal|: median .674, 95 % quantile 1.96 standard deviations; 120 values leave a quarter of slack.
    assert theirs["aa_median_percent"] == pytest.approx(0.674 * 0.2, rel=0.25)
    assert theirs["aa_p95_percent"] == pytest.approx(1.96 * 0.2, rel=0.25)
    assert ours["aa_median_percent"] == pytest.approx(0.674 * 0.01, rel=0.25)
    assert theirs["aa_p95_over_cycles"] == pytest.approx(20, rel=0.4)
    assert theirs["error_5_percent"] == pytest.approx(0.674 * 0.2, rel=0.3)
    assert abs(theirs["bias_5_percent"]) < 4 * 0.2 / math.sqrt(120)
    assert ours["aa_p95_over_cycles"] == 1
    assert theirs["aa_p95_over_time"] is None  # nothing of ours was measured in time


def test_a_tool_no_noisier_than_ours_is_told_as_such() -> None:
    rows = rows_of(run_tools(DESIGN, worker=worker(noise=0.001)))
    assert rows[DO_BENCH, "mean"]["aa_p95_over_cycles"] < 0.2


def test_a_bias_that_is_not_there_by_injection_is_an_error() -> None:
    rows = rows_of(run_tools(DESIGN, worker=worker(noise=0.01, bias=-0.3)))
    for key in ("aa_median_percent", "error_0.5_percent", "error_5_percent"):
        assert rows[DO_BENCH, "mean"][key] == pytest.approx(0.3, abs=0.01)
    assert rows[DO_BENCH, "mean"]["aa_mean_percent"] == pytest.approx(-0.3, abs=0.01)


def test_the_truth_is_scaled_to_the_base_that_the_tool_measures() -> None:
    pair = Pair(0, 5.0, 20_000, True)
    said = [Measured(OURS, "time", 0, 420.0, 400.0, 10, 0.1), Measured(DO_BENCH, "mean", 0, 440.0, 420.0, 10, 0.1)]
    for one in with_truth(0, [pair], said, {"hot": 400_000, "flushed": 420_000}):
        assert one.error_percent == pytest.approx(0, abs=1e-9)
    wrong = with_truth(0, [pair], said, {"hot": 400_000, "flushed": 400_000})[1]
    assert wrong.error_percent == pytest.approx(-0.238, abs=0.001)


def test_a_reading_that_is_no_duration_is_refused() -> None:
    for bad in (0.0, math.nan, math.inf, -1.0):
        with pytest.raises(BenchError, match="not durations"):
            with_truth(0, [Pair(0, 0.0, 0, True)], [Measured(OURS, "time", 0, 1.0, bad, 1, 0.1)], {"hot": 1.0})


def test_fresh_processes_use_every_block_once_and_average_out_what_is_a_processs_own() -> None:
    def of(process: int) -> list[Any]:
        pairs = [Pair(i, 0.0, 0, True) for i in range(2)]
        logs = [0.001 * (process - 1) + 1e-5 * block for block in range(6)]  # -0.1, 0, +0.1 % by process
        a = math.exp(float(np.mean(logs)))
        said = [Measured(OURS, "time", pair.index, a, 1.0, 30, 0.1, logs) for pair in pairs]
        return with_truth(process, pairs, said, {"hot": 1.0})

    quick = [one for process in range(3) for one in of(process)]
    full = regrouped(quick)
    assert len(full) == len(quick) == 6
    assert max(abs(one.estimate_percent) for one in full) < 0.01 < max(abs(one.estimate_percent) for one in quick)
    assert np.mean([math.log(one.a) for one in full]) == pytest.approx(np.mean([math.log(one.a) for one in quick]))
    assert regrouped(of(0)) == []


def test_every_effect_is_drawn_as_often_as_asked_in_an_order_of_its_own() -> None:
    design = Design(aa=6, repeats=5)
    first, again, other = (draw_pairs(design, process, HOT) for process in (0, 0, 1))
    assert first == again != other
    effects = [pair.effect_percent for pair in first]
    assert {effect: effects.count(effect) for effect in set(effects)} == {0: 6, 0.2: 5, 0.5: 5, 1: 5, 2: 5, 5: 5}
    assert all(pair.injected_cycles == round(pair.effect_percent * HOT / 100) for pair in first)
    assert {pair.a_first for pair in first} == {True, False}
    assert [pair.index for pair in first] == list(range(31))


def test_a_tool_that_is_missing_or_fails_is_a_row_and_the_others_stand() -> None:
    record = run_tools(DESIGN, worker=worker(missing={NVBENCH: "not installed (pip install 'cuda-bench[cu13]')"}))
    row = rows_of(record)[NVBENCH, ""]
    assert row["remark"].startswith("not installed")
    assert (OURS, "SM cycles") in rows_of(record)
    for fmt in FORMATS:
        assert "not installed" in tools_text(record, fmt)

    calls = []

    def broken(pair: Pair) -> list[Measured]:
        calls.append(pair)
        raise RuntimeError("no\nlibcuda")

    ours = stand_in(OURS, "time", HOT, noise=0.1)
    pairs = draw_pairs(Design(aa=3, repeats=0), 0, HOT)
    found, missing = take_turns(pairs, {"ours": ours, DO_BENCH: broken}, 1)
    assert (len(found), len(calls), missing) == (3, 1, {DO_BENCH: "failed: RuntimeError: no libcuda"})
    with pytest.raises(RuntimeError):
        take_turns(pairs, {"ours": broken}, 1)


def test_the_record_comes_back_and_its_rows_are_computed_from_its_estimates(tmp_path: Path) -> None:
    path = tmp_path / "tools.json"
    record = run_tools(DESIGN, worker=worker())
    path.write_text(record_text(record), encoding="utf-8")
    back = read_tools_record(path)
    assert back["rows"] == record["rows"]
    assert tools_text(back, "table") == tools_text(record, "table")
    assert json.loads(tools_text(back, "json"))["rows"] == record["rows"]
    edited = json.loads(path.read_text(encoding="utf-8"))
    edited["rows"][0]["aa_p95_percent"] = 0.0
    path.write_text(json.dumps(edited), encoding="utf-8")
    assert read_tools_record(path)["rows"] == record["rows"]
    table = json_table(read_document(path, "tools.json"), "rows", "tool|tool; aa_p95_percent|A/A (%)|.4f")
    assert [column.heading for column in table.columns] == ["tool", "A/A (%)"]


def _broken_record(change: Callable[[dict[str, Any]], object]) -> str:
    record = json.loads(record_text(run_tools(Design(processes=1, aa=1, repeats=0), worker=worker())))
    change(record)
    return json.dumps(record)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (lambda: "{", "not JSON"),
        (lambda: '{"tool": "gemm-bench"}', "not a record of gemm-bench tools"),
        (lambda: "[]", "not a record of gemm-bench tools"),
        (lambda: _broken_record(lambda record: record.pop("comparisons")), "lacks or garbles"),
        (lambda: _broken_record(lambda record: record["comparisons"][0].pop("a")), "lacks or garbles"),
        (lambda: _broken_record(lambda record: record["comparisons"][0].update(tool="x")), "no tool 'x'"),
        (lambda: _broken_record(lambda record: record["config"].pop("shape")), "not the design"),
        (lambda: _broken_record(lambda record: record["config"].update(processes=0)), "below 1"),
    ],
)
def test_a_file_that_is_no_record_is_one_line(tmp_path: Path, content: Callable[[], str], says: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content(), encoding="utf-8")
    with pytest.raises(UserError, match=says):
        read_tools_record(path)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--record", "nowhere.json"], "cannot be read"),
        (["--record", "x.json", "--out", "y.json"], "--out"),
        (["--effects", "1,x"], "--effects"),
        (["--effects", "0"], "--effects"),
        (["--effects", "1,1"], "given twice"),
        (["--processes", "0"], "--processes"),
        (["--format", "xml"], "--format"),
    ],
)
def test_bad_input_is_one_line_and_status_2(arguments: list[str], says: str) -> None:
    done = subprocess.run([sys.executable, "-m", "gemm", "tools", *arguments], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert says in done.stderr


def test_the_command_writes_the_record_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "tools.json"
    started: list[Design] = []

    def run(design: Design, *, device: int, note: Callable[[str], None]) -> dict[str, Any]:
        started.append(design)
        return run_tools(design, device=device, worker=worker(), note=note)

    monkeypatch.setattr("gemm.truth.tools.comparison.run_tools", run)
    monkeypatch.setattr("gemm.cli.campaigns.need_gpu", lambda what, device: None)
    asked = ["tools", "--processes", "2", "--effects", "1,5", "--aa", "4", "--format", "json", "--out", str(out)]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0
    assert (started[0].processes, started[0].aa, started[0].effects_percent) == (2, 4, (1.0, 5.0))
    assert done.stdout == tools_text(read_tools_record(out), "json")
    again = CliRunner().invoke(app, asked)  # a record that is there is found before anything is run
    assert "exists already" in str(again.exception)
    assert len(started) == 1


@pytest.mark.parametrize(("wrote", "status"), [(True, -11), (False, 2), (False, 1)])
def test_a_process_that_died_in_nvbench_keeps_the_others_figures(
    monkeypatch: pytest.MonkeyPatch, wrote: bool, status: int
) -> None:
    def run(command: list[str], **_: Any) -> Any:
        if wrote:
            result = {"comparisons": [], "missing": {NVBENCH: NVBENCH_DIED}}
            Path(command[-1]).write_text(json.dumps(result), encoding="utf-8")
        return SimpleNamespace(returncode=status, stderr="Traceback\nlast words\n")

    monkeypatch.setattr(subprocess, "run", run)
    if wrote:
        assert fresh_process({"process": 0})["missing"] == {NVBENCH: f"{NVBENCH_DIED} (status -11): last words"}
        return
    with pytest.raises(UserError if status == 2 else BenchError, match="process 0: last words") as caught:
        fresh_process({"process": 0})
    assert caught.value.exit_status == status
