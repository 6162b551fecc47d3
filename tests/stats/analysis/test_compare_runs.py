"""Two records of different builds: unpaired, refused when they are different experiments."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from stats.analysis.results import Analysis, to_json
from stats.analysis.two_runs import compare_runs
from stats.analysis.verdicts import Verdict
from stats.base.errors import UserError
from stats.record.schema import Record
from tests.makers.rows import H200
from tests.makers.synthetic import make_record

OLD = {"A1": 0.03, "A3": 0.0, "A3.twin": 0.0}


def build(effects: dict[str, float], run: str = "run-2", seed: int = 1, **changes: Any) -> Record:
    return make_record(effects, seed=seed, run_id=run, between=0.0005, within=0.002, **changes)


def level(record: Record) -> Record:
    """Take the level that processes share out of a synthetic record: runs are compared by absolute figures."""
    cells = []
    for process in {c.process for c in record.cells}:
        own = [c for c in record.cells if c.process == process]
        mean = np.mean([math.log(c.sm_cycles) for c in own if c.arm == "A3"])
        scale = math.exp(math.log(1e7) - mean + np.random.default_rng(process).normal(0, 0.001))
        cells += [replace(c, sm_cycles=c.sm_cycles * scale, time_ns=c.time_ns * scale) for c in own]
    return replace(record, cells=cells)


def codes(result: Analysis) -> set[str]:
    return {caution.code for caution in result.cautions}


def test_a_slower_build_is_worse_and_the_other_arm_is_not() -> None:
    old = level(build(OLD, run="run-1"))
    new = level(build(OLD | {"A1": 0.05}, seed=5, source_hash="bbbb"))
    result = compare_runs(old, new, metric="cycles")
    found = {c.a: c for c in result.comparisons}
    assert result.mode == "unpaired"
    assert found["A1"].verdicts == (Verdict.DIFFERENT, Verdict.MATERIAL)
    assert found["A1"].worse
    assert found["A1"].inference.theta == pytest.approx(0.02, abs=0.003)
    assert not found["A3"].worse
    assert "A3.twin" not in found
    assert {"unpaired", "builds_differ"} <= codes(result)
    json.dumps(to_json(result), allow_nan=False)


def test_the_interval_is_welchs() -> None:
    old, new = level(build(OLD, run="run-1")), level(build(OLD, seed=5, processes=6))
    found = compare_runs(old, new, metric="cycles", a="A3").comparisons[0]

    def means(record: Record) -> list[float]:
        return [
            float(
                np.mean([math.log(c.sm_cycles / c.launches) for c in record.cells if (c.process, c.arm) == (p, "A3")])
            )
            for p in range(record.header.processes)
        ]

    expected = stats.ttest_ind(means(new), means(old), equal_var=False).confidence_interval(0.95)
    assert found.inference.t is not None
    assert (found.inference.t.low, found.inference.t.high) == pytest.approx((expected.low, expected.high))
    assert found.inference.n == 6


def test_swapping_the_runs_flips_the_sign_exactly() -> None:
    old, new = level(build(OLD, run="run-1")), level(build(OLD, seed=5))
    forward = compare_runs(old, new, a="A1").comparisons[0].inference
    backward = compare_runs(new, old, a="A1").comparisons[0].inference
    assert backward.theta == -forward.theta
    assert backward.p == forward.p


def test_a_ratio_can_be_compared_between_runs() -> None:
    """What a run shares cancels: levels of processes differ by 2 % and the change of a/b is still found."""
    result = compare_runs(build(OLD, run="run-1"), build(OLD | {"A1": 0.05}, seed=5), a="A1", b="A3", metric="cycles")
    assert [(c.a, c.b) for c in result.comparisons] == [("A1", "A3")]
    assert result.comparisons[0].inference.theta == pytest.approx(0.02, abs=0.003)
    assert Verdict.MATERIAL in result.comparisons[0].verdicts


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"l2_mode": "flushed"}, "l2_mode: 'hot' in the old record, 'flushed' in the new"),
        ({"workload": {"shape": [4096, 4096, 4096], "dtype": "fp16"}}, "workload.dtype: 'bf16'"),
        ({"workload": {"shape": [8, 8, 8], "dtype": "bf16"}}, "workload.shape"),
        ({"device": H200.model_copy(update={"name": "NVIDIA A100"})}, "device.name"),
        ({"device": None}, "device.name"),
        ({"tool": "micro-bench"}, "tool"),
    ],
)
def test_different_experiments_are_refused_with_the_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(UserError) as refusal:
        compare_runs(build(OLD, run="run-1"), build(OLD, **changes))
    assert field in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_different_sources_are_refused_where_the_same_are_asked_for() -> None:
    old, new = build(OLD, run="run-1"), build(OLD, source_hash="bbbb")
    with pytest.raises(UserError, match="source_hash"):
        compare_runs(old, new, same_source=True)
    assert compare_runs(old, new).comparisons


def test_a_subset_of_arms_is_compared_and_the_rest_named() -> None:
    old = level(build(OLD, run="run-1"))
    new = level(build({"A3": 0.0, "A3.twin": 0.0, "A2": 0.01}, seed=5))
    result = compare_runs(old, new)
    assert {c.a for c in result.comparisons} == {"A3"}
    assert set(result.missing) == {"A1 (only in run-1)", "A2 (only in run-2)"}
    assert any("A1 (only in run-1)" in c.message for c in result.cautions if c.code == "missing_arms")
    with pytest.raises(UserError, match="not in both records"):
        compare_runs(old, new, a="A1")
    nothing = compare_runs(old, build({"B1": 0.0, "B2": 0.0}))
    assert nothing.comparisons == ()
    assert "nothing_shared" in codes(nothing)


def test_arms_by_one_name_only() -> None:
    record = build(OLD, run="run-1")
    with pytest.raises(UserError, match="without --a"):
        compare_runs(record, build(OLD), b="A1")
    with pytest.raises(UserError, match="both are 'A1'"):
        compare_runs(record, build(OLD), a="A1", b="A1")


def test_a_record_against_itself_is_untestable() -> None:
    record = build(OLD)
    result = compare_runs(record, record)
    assert all(c.verdicts == (Verdict.UNTESTABLE,) for c in result.comparisons)
    assert "same_run" in codes(result)


def test_too_few_processes_and_none_accepted() -> None:
    few = compare_runs(build(OLD, run="run-1"), build(OLD, processes=1))
    assert all("4 in each run" in str(c.inference.untestable) for c in few.comparisons)
    throttled = build(OLD)
    throttled = replace(throttled, cells=[replace(c, throttle_reasons=("hw_slowdown",)) for c in throttled.cells])
    none = compare_runs(build(OLD, run="run-1"), throttled)
    assert none.accepted_blocks == 0
    assert all(c.verdicts == (Verdict.UNTESTABLE,) for c in none.comparisons)
    json.dumps(to_json(none), allow_nan=False)


def test_what_else_differs_is_said() -> None:
    from stats.record.schema import ClockState

    old = build(OLD, run="run-1")
    new = build(
        OLD,
        device=H200.model_copy(update={"uuid": "GPU-2"}),
        clocks=ClockState(requested="lock", effective="lock", label="locked at 1500 MHz"),
    )
    assert {"different_unit", "clocks_differ"} <= codes(compare_runs(old, new))


def test_time_and_cycles_of_two_runs_disagree_with_their_clocks() -> None:
    old, new = level(build(OLD, run="run-1")), level(build(OLD, seed=5, clock_mhz={"A1": 1400.0}))
    conflict = next(c for c in compare_runs(old, new).conflicts if c.a == "A1")
    assert conflict.explained
    assert "1400 MHz in A1 of run-2, 1500 MHz in A1 of run-1" in conflict.reason


def test_a_metric_that_one_run_lacks() -> None:
    bare = build({"A1": 0.0, "A3": 0.0})
    bare = replace(bare, cells=[replace(c, sm_cycles=math.nan) for c in bare.cells])
    result = compare_runs(build({"A1": 0.0, "A3": 0.0}, run="run-1", seed=5), bare)
    lacking = [c for c in result.comparisons if c.metric == "cycles"]
    assert all("run-2 has no cycles figure" in str(c.inference.untestable) for c in lacking)
    assert all(c.inference.t is not None for c in result.comparisons if c.metric == "time")
    assert "no_aa" in codes(result)
