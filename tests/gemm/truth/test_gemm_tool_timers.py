"""Each timer, asked of a stand-in for its tool: which side runs when, for how many launches, what is read back."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gemm.truth.tools import timers as tool_timers
from gemm.truth.tools.design import NVBENCH, Pair
from gemm.truth.tools.timers import ToolMissing, do_bench, nvbench, nvbench_measured, paired_blocks, read_states
from stats.base.errors import BenchError
from stats.record.schema import Cell


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
