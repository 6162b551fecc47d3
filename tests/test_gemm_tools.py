"""Tools compared, with stand-ins for them: known noise and bias give the right table; an absent tool gives a row."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gemm import tool_timers
from gemm.tool_comparison import fresh_process, read_tools_record, record_text, run_tools, tools_text
from gemm.tool_design import DO_BENCH, NVBENCH, OURS, Design, Measured, Pair, design_from, draw_pairs, with_truth
from gemm.tool_rows import regrouped
from gemm.tool_timers import ToolMissing, do_bench, nvbench, nvbench_measured, paired_blocks, read_states
from gemm.tool_worker import NVBENCH_DIED, take_turns
from stats.errors import BenchError, UserError
from stats.records import Cell
from stats.report.json_tables import json_table, read_document
from stats.tables import FORMATS

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


def test_paired_blocks_are_not_fooled_by_drift_but_one_after_the_other_is() -> None:
    pair = Pair(3, 1.0, 4_000, True)
    clock = iter(range(10_000))

    def sides(which: Pair, side: str) -> Callable[[], object]:
        return lambda: 400_000 + (which.injected_cycles if side == "a" else 0)

    def measure(launch: Callable[[], Any], launches: int) -> Cell:
        cycles = launches * launch() * (1 + 1e-4 * next(clock))  # every cell 0.01 % slower than the one before
        return Cell(time_ns=cycles / 1.5, sm_cycles=cycles, launches=launches, clock_mhz=1500.0)

    cycles, time = paired_blocks(pair, sides, measure, launches=201, per_cell=5, seed=1)
    assert (cycles.measure, time.measure, cycles.launches) == ("SM cycles", "time", 200)
    assert len(cycles.block_log_ratios) == 40
    assert np.mean(cycles.block_log_ratios) == pytest.approx(math.log(cycles.a / cycles.b), abs=1e-8)
    assert 100 * (cycles.a / cycles.b - 1) == pytest.approx(1.0, abs=0.003)
    one_side, then_the_other = ([measure(sides(pair, "b"), 5).sm_cycles for _ in range(40)] for _ in range(2))
    assert 100 * (np.mean(then_the_other) / np.mean(one_side) - 1) > 0.2


def _module(monkeypatch: pytest.MonkeyPatch, name: str, **content: Any) -> None:
    module = ModuleType(name)
    module.__spec__ = SimpleNamespace(name=name)  # type: ignore[assignment]  # what find_spec looks at
    module.__path__ = []  # type: ignore[attr-defined]
    for key, value in content.items():
        setattr(module, key, value)
    monkeypatch.setitem(sys.modules, name, module)


def test_do_bench_is_asked_with_its_defaults_one_side_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def bench(launch: Callable[[], Any], **options: Any) -> list[float]:
        asked.append((launch(), options))
        return [1.0, 1.0, 4.0] if launch() == "a" else [1.0, 2.0, 1.5, 1.5]

    _module(monkeypatch, "triton")
    _module(monkeypatch, "triton.testing", do_bench=bench)
    mean, median = do_bench(Pair(7, 0.0, 0, False), lambda pair, side: lambda: side)
    assert asked == [("b", {"return_mode": "all"}), ("a", {"return_mode": "all"})]
    assert (mean.measure, mean.a, mean.b, mean.launches) == ("mean", 2.0, 1.5, 4)
    assert (median.measure, median.a, median.b) == ("median", 1.0, 1.5)


def test_absent_tools_say_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("triton", "cuda", "cuda.bench"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ToolMissing, match=r"not installed \(pip install triton\)"):
        do_bench(Pair(0, 0.0, 0, True), lambda pair, side: lambda: None)
    with pytest.raises(ToolMissing, match="cuda-bench"):
        nvbench([], lambda pair, side: lambda: None, launches=1, launch_s=1, defaults=0, device=0, out=tmp_path / "x")


def _summary(tag: str, value: float, kind: str = "float64") -> dict[str, Any]:
    return {"tag": tag, "name": tag, "data": [{"name": "value", "type": kind, "value": str(value)}]}


class FakeNvbench:
    """The calls that the interface file of cuda-bench 0.3.0 declares, and its JSON format 1."""

    def __init__(self) -> None:
        self.benchmarks: list[Any] = []
        self.argv: list[str] = []
        self.launched: list[tuple[str, str, bool]] = []

    def register(self, function: Callable[[Any], None]) -> Any:
        benchmark = SimpleNamespace(function=function, options={}, sides=[])

        def setter(name: str) -> Callable[..., Any]:
            def set_it(*values: Any) -> Any:
                benchmark.options[name] = values
                return benchmark

            return set_it

        for name in ("set_stopping_criterion", "set_criterion_param_int64", "set_batch_target_time", "set_timeout"):
            setattr(benchmark, name, setter(name))

        def add_string_axis(name: str, values: list[str]) -> Any:
            assert name == "Side"
            benchmark.sides = values
            return benchmark

        benchmark.add_string_axis = add_string_axis
        self.benchmarks.append(benchmark)
        return benchmark

    def run_all_benchmarks(self, argv: list[str]) -> None:
        self.argv = argv
        written = []
        for benchmark in self.benchmarks:
            states = []
            for side in benchmark.sides:
                stream = SimpleNamespace(addressof=lambda: 77)

                def execute(launcher: Any, *, own: Any = stream, of: Any = benchmark, name: str = side, **tags: Any):
                    launcher(SimpleNamespace(get_stream=lambda: own))
                    self.launched.append((of.function.__name__, name, tags.get("batched", True)))

                benchmark.function(
                    SimpleNamespace(get_stream=lambda s=stream: s, get_string=lambda _, s=side: s, exec=execute)
                )
                value = 1.01 if side.endswith("a") else 1.0
                summaries = [
                    _summary("nv/cold/sample_size", 200, "int64"),
                    _summary("nv/cold/walltime", 0.1),
                    _summary("nv/cold/time/gpu/mean", value),
                    _summary("nv/cold/time/gpu/median", value**2),
                    _summary("nv/cold/sm_clock_rate/mean", 1.5e9),
                    _summary("nv/batch/time/gpu/mean", value),
                    _summary("nv/batch/sample_size", 210, "int64"),
                ]
                axis = [{"name": "Side", "type": "string", "value": side}]
                states.append({"name": side, "axis_values": axis, "summaries": summaries, "is_skipped": False})
            written.append({"name": benchmark.function.__name__, "states": states})
        Path(argv[argv.index("--json") + 1]).write_text(json.dumps({"benchmarks": written}), encoding="utf-8")


def test_nvbench_runs_every_side_on_its_stream_for_as_many_launches(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = FakeNvbench()
    _module(monkeypatch, "cuda")
    _module(monkeypatch, "cuda.bench", register=fake.register, run_all_benchmarks=fake.run_all_benchmarks)
    monkeypatch.setattr(sys.modules["cuda"], "bench", sys.modules["cuda.bench"], raising=False)
    streams: list[int] = []
    monkeypatch.setattr(tool_timers, "_stream", lambda torch, stream: stream.addressof())

    class Current:
        def __init__(self, stream: int) -> None:
            self.stream = stream

        def __enter__(self) -> None:
            streams.append(self.stream)

        def __exit__(self, *_: object) -> None:
            pass

    _module(monkeypatch, "torch", cuda=SimpleNamespace(stream=Current, synchronize=lambda: None))
    pairs = [Pair(0, 0.0, 0, False), Pair(1, 1.0, 4000, True)]
    launched: list[tuple[int, str]] = []
    found = nvbench(
        pairs,
        lambda pair, side: lambda: launched.append((pair.index, side)),
        launches=200,
        launch_s=0.0005,
        defaults=1,
        device=0,
        out=tmp_path / "nvbench.json",
    )
    assert launched == [(0, "b"), (0, "a"), (1, "a"), (1, "b"), (0, "b"), (0, "a")]
    assert streams == [77] * 6
    assert [batched for _, _, batched in fake.launched] == [True] * 4 + [False] * 2
    options = fake.benchmarks[0].options
    assert options["set_stopping_criterion"] == ("sample-count",)
    assert options["set_criterion_param_int64"] == ("target-samples", 200)
    assert options["set_batch_target_time"] == (pytest.approx(0.1),)
    assert "set_stopping_criterion" not in fake.benchmarks[1].options
    assert fake.argv[1:4] == ["--devices", "0", "--quiet"]
    by_measure = {(one.tool, one.measure, one.index): one for one in found}
    assert by_measure[NVBENCH, "cold mean", 1].a == 1.01
    assert by_measure[NVBENCH, "cold median", 1].a == pytest.approx(1.0201)
    assert by_measure[NVBENCH, "cold mean × SM clock", 0].b == 1.5e9
    assert by_measure[NVBENCH, "batch mean", 0].launches == 210
    assert by_measure[NVBENCH, "cold mean", 0].wall_s == pytest.approx(0.2)
    assert ("nvbench, min-time 0.5 s", "cold mean", 0) in by_measure


def test_nvbench_states_that_cannot_be_read_are_refused() -> None:
    with pytest.raises(BenchError, match="no benchmark"):
        read_states({"benchmarks": []}, "equal_time")
    state = {"name": "Side=0a", "is_skipped": True, "skip_reason": "Deadlock"}
    with pytest.raises(BenchError, match="Deadlock"):
        read_states({"benchmarks": [{"name": "equal_time", "states": [state]}]}, "equal_time")
    assert nvbench_measured([Pair(0, 0.0, 0, True)], {"0a": {}, "0b": {}}, NVBENCH) == []


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
