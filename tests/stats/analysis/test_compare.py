"""One record in, an Analysis out: signs, families, A/A, skips, and every way a record can hold no answer."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from stats.analysis.compare import analyse
from stats.analysis.results import Analysis, Comparison, to_json
from stats.analysis.verdicts import Verdict
from stats.base.errors import UserError
from tests.makers.synthetic import changed, make_record

ARMS = {"A1": 0.03, "A2L": 0.002, "A3": 0.0, "A3.twin": 0.0}


def codes(result: Analysis | Comparison) -> set[str]:
    return {caution.code for caution in result.cautions}


def one(result: Analysis, a: str, b: str, metric: str = "cycles") -> Comparison:
    return next(c for c in result.comparisons if (c.a, c.b, c.metric) == (a, b, metric))


def assert_no_nan(result: Analysis) -> None:
    text = json.dumps(to_json(result), allow_nan=False)
    assert "NaN" not in text
    for comparison in result.comparisons:
        if comparison.inference.untestable:
            assert comparison.verdicts == (Verdict.UNTESTABLE,)
            assert math.isnan(comparison.inference.p)


def test_known_effects_are_found_with_their_sign() -> None:
    result = analyse(make_record(ARMS))
    found = one(result, "A1", "A3")
    assert found.verdicts == (Verdict.DIFFERENT, Verdict.MATERIAL)
    assert found.worse
    assert found.inference.t is not None
    assert found.inference.t.low < 0.03 < found.inference.t.high
    assert found.inference.unit == "process"
    assert found.inference.n == 8
    assert found.blocks == 160
    assert result.family == 2
    assert [(c.a, c.b, c.metric) for c in result.aa] == [("A3.twin", "A3", "time"), ("A3.twin", "A3", "cycles")]


def test_swapping_arms_flips_the_sign_exactly() -> None:
    record = make_record(ARMS)
    forward = one(analyse(record, a="A1", b="A3"), "A1", "A3").inference
    backward = one(analyse(record, a="A3", b="A1"), "A3", "A1").inference
    assert backward.theta == -forward.theta
    assert backward.hl_theta == -forward.hl_theta
    assert forward.t is not None
    assert backward.t is not None
    assert (backward.t.low, backward.t.high) == (-forward.t.high, -forward.t.low)
    assert backward.p == forward.p


def test_looking_at_one_pair_does_not_shrink_the_family() -> None:
    record = make_record(ARMS)
    whole, alone = analyse(record), analyse(record, a="A2L", b="A3")
    assert alone.family == whole.family == 2
    assert [(c.a, c.b) for c in alone.comparisons] == [("A2L", "A3")] * 2
    assert one(alone, "A2L", "A3").inference == one(whole, "A2L", "A3").inference
    undeclared = analyse(record, a="A1", b="A2L")
    assert undeclared.family == 3
    assert "undeclared" in codes(undeclared)
    assert not undeclared.comparisons[0].declared


def test_a_record_without_declared_comparisons_says_so() -> None:
    result = analyse(make_record(ARMS, comparisons=[]))
    assert "no_family" in codes(result)
    assert {(c.a, c.b) for c in result.comparisons} == {("A1", "A3"), ("A2L", "A3")}


def test_a_margin_after_the_run_is_marked() -> None:
    record = make_record(ARMS, margin_percent=0.5)
    assert "margin_after_run" not in codes(analyse(record, margin_percent=0.5))
    late = analyse(record, margin_percent=5)
    assert late.margin_percent == 5
    assert "margin_after_run" in codes(late)
    assert Verdict.MATERIAL not in one(late, "A1", "A3").verdicts


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [("A9", None, "no arm 'A9'"), ("A1", "A9", "A9"), (None, "A3", "--a"), ("A1", "A1", "both are 'A1'")],
)
def test_wrong_arms_are_one_line(a: str | None, b: str | None, said: str) -> None:
    with pytest.raises(UserError, match=said):
        analyse(make_record(ARMS), a=a, b=b)


def test_many_cells_of_few_processes_are_few() -> None:
    result = analyse(make_record({"A1": 0.5, "A3": 0.0}, processes=3, blocks=400))
    found = one(result, "A1", "A3")
    assert found.verdicts == (Verdict.UNTESTABLE,)
    assert found.inference.untestable is not None
    assert "3 processes" in found.inference.untestable
    assert "6 processes are needed" in found.inference.untestable
    assert_no_nan(result)


def test_one_process_is_a_quick_look_and_says_so() -> None:
    short = one(analyse(make_record({"A1": 0.05, "A3": 0.0}, processes=1, blocks=199)), "A1", "A3")
    assert short.verdicts == (Verdict.UNTESTABLE,)
    assert short.inference.untestable is not None
    assert "200 blocks for a quick look" in short.inference.untestable
    quick = one(analyse(make_record({"A1": 0.05, "A3": 0.0}, processes=1, blocks=200)), "A1", "A3")
    assert quick.inference.unit == "batch"
    assert quick.inference.n == 10
    assert quick.conditional is not None
    assert "conditional on this process" in quick.conditional
    assert "conditional" in codes(quick)
    assert Verdict.DIFFERENT in quick.verdicts


def test_two_builds_of_the_same_code_are_not_called_different() -> None:
    """Over 200 records without any effect the twin is called different at no more than the stated rate."""
    from scipy import stats

    called = 0
    for seed in range(200):
        record = make_record({"A3": 0.0, "A3.twin": 0.0}, blocks=4, seed=seed)
        found = analyse(record, metric="cycles").aa[0]
        called += Verdict.DIFFERENT in found.verdicts
    assert called <= stats.binom.ppf(0.9995, 200, 0.05)


def test_aa_outside_the_margin_is_said() -> None:
    result = analyse(make_record({"A1": 0.03, "A3": 0.0, "A3.twin": 0.02}))
    assert all("aa_failed" in codes(c) for c in result.aa)
    assert "aa_failed" not in codes(analyse(make_record(ARMS)).aa[0])


def test_a_claim_below_the_largest_aa_deviation_is_refused() -> None:
    arms = {"A2L": 0.004, "A3": 0.0, "A3.twin": 0.006}
    found = one(analyse(make_record(arms, within=0.001, between=0.0002)), "A2L", "A3")
    assert Verdict.DIFFERENT not in found.verdicts
    assert "below_aa" in codes(found)
    arms["A3.twin"] = 0.0001
    assert Verdict.DIFFERENT in one(analyse(make_record(arms, within=0.001, between=0.0002)), "A2L", "A3").verdicts


def test_without_a_twin_the_result_says_so() -> None:
    assert "no_aa" in codes(analyse(make_record({"A1": 0.01, "A3": 0.0})))


def test_a_skipped_arm_is_a_row_with_its_reason() -> None:
    result = analyse(make_record(ARMS, skips={"A9": "needs sm_90"}))
    row = one(result, "A9", "A3")
    assert row.verdicts == (Verdict.UNTESTABLE,)
    assert row.inference.untestable == "arm A9 was skipped: needs sm_90"
    assert result.skipped == {"A9": "needs sm_90"}
    assert result.family == 3  # asked is asked
    assert_no_nan(result)


def test_every_cell_discarded_by_the_throttle_rule() -> None:
    record = changed(make_record(ARMS), lambda cell: replace(cell, throttle_reasons=("hw_thermal_slowdown",)))
    result = analyse(record)
    assert result.accepted_blocks == 0
    said = next(c.message for c in result.cautions if c.code == "none_accepted")
    assert "0 accepted of 160" in said
    assert "hw_thermal_slowdown: 160" in said
    assert result.exclusions[0].by_arm["A1"] == {"hw_thermal_slowdown": 160}
    assert_no_nan(result)


def test_an_empty_record_is_an_answer_too() -> None:
    record = make_record(ARMS)
    result = analyse(replace(record, cells=[]))
    assert result.accepted_blocks == 0
    assert {"none_accepted", "incomplete_run", "absent_arm"} <= codes(result)
    assert_no_nan(result)


@pytest.mark.parametrize("sides", [("A1",), ("A3",), ("A1", "A3")])
def test_constant_sides_are_untestable(sides: tuple[str, ...]) -> None:
    constant = changed(
        make_record({"A1": 0.03, "A3": 0.0}),
        lambda cell: replace(cell, time_ns=1e6, sm_cycles=2e6) if cell.arm in sides else cell,
    )
    result = analyse(constant)
    assert all(c.verdicts == (Verdict.UNTESTABLE,) for c in result.comparisons)
    assert_no_nan(result)


def test_identical_arms_get_an_exact_statement() -> None:
    record = make_record({"A1": 0.0, "A3": 0.0})
    first = {(c.process, c.block): c for c in record.cells if c.arm == "A1"}
    same = changed(
        record,
        lambda c: replace(c, time_ns=first[c.process, c.block].time_ns, sm_cycles=first[c.process, c.block].sm_cycles),
    )
    result = analyse(same)
    assert all("exactly" in str(c.inference.untestable) for c in result.comparisons)
    assert all(c.inference.effect_percent == 0 for c in result.comparisons)
    assert_no_nan(result)


def test_a_metric_that_was_never_measured_is_untestable_and_the_other_is_not() -> None:
    record = changed(make_record(ARMS), lambda cell: replace(cell, sm_cycles=math.nan))
    result = analyse(record)
    assert one(result, "A1", "A3", "cycles").verdicts == (Verdict.UNTESTABLE,)
    assert Verdict.DIFFERENT in one(result, "A1", "A3", "time").verdicts
    assert_no_nan(result)


def test_a_missing_figure_costs_its_block_and_is_counted() -> None:
    record = changed(make_record(ARMS), lambda c: replace(c, time_ns=math.nan) if (c.block, c.arm) == (3, "A1") else c)
    result = analyse(record)
    assert one(result, "A1", "A3", "time").unmeasured_blocks == 8
    assert one(result, "A1", "A3", "time").blocks == 152
    assert one(result, "A2L", "A3", "time").unmeasured_blocks == 0


@pytest.mark.parametrize("bad", [0.0, -5.0, math.inf])
def test_a_figure_that_is_no_duration_stops_its_arm(bad: float) -> None:
    record = changed(
        make_record(ARMS), lambda c: replace(c, time_ns=bad) if (c.process, c.block, c.arm) == (2, 3, "A1") else c
    )
    result = analyse(record)
    assert "not a duration" in str(one(result, "A1", "A3", "time").inference.untestable)
    assert Verdict.DIFFERENT not in one(result, "A2L", "A3", "time").verdicts
    assert_no_nan(result)


def test_an_incomplete_block_is_dropped_and_counted() -> None:
    record = changed(make_record(ARMS), lambda c: None if (c.process, c.block, c.arm) == (0, 19, "A1") else c)
    result = analyse(record)
    assert result.exclusions[0].incomplete == 1
    assert result.exclusions[0].blocks == 159
    assert "incomplete_run" in codes(result)
    assert one(result, "A2L", "A3").blocks == 159


def test_a_repeated_process_counts_once() -> None:
    record = make_record({"A1": 0.03, "A3": 0.0})
    aborted = [replace(c, sm_cycles=3 * c.sm_cycles) for c in record.cells if c.process == 2 and c.block < 5]
    whole = [replace(c, attempt=1) if c.process == 2 else c for c in record.cells]
    result = analyse(replace(record, cells=[*aborted, *whole]))
    assert one(result, "A1", "A3").inference == one(analyse(record), "A1", "A3").inference
    said = next(c.message for c in result.cautions if c.code == "unused_attempts")
    assert "10 cells of 1 aborted or repeated attempts" in said


def test_a_process_that_never_finished_counts_with_its_longest_attempt() -> None:
    record = make_record({"A1": 0.03, "A3": 0.0})
    short = [c for c in record.cells if c.process == 7 and c.block < 5]
    longer = [replace(c, attempt=1) for c in record.cells if c.process == 7 and c.block < 15]
    shorter = [replace(c, attempt=2) for c in record.cells if c.process == 7 and c.block < 8]
    others = [c for c in record.cells if c.process != 7]
    assert one(analyse(replace(record, cells=[*others, *short, *longer, *shorter])), "A1", "A3").blocks == 155


def test_cells_that_contradict_the_header_are_one_line() -> None:
    record = make_record({"A1": 0.03, "A3": 0.0})
    with pytest.raises(UserError, match="arm 'B7'"):
        analyse(replace(record, cells=[*record.cells, replace(record.cells[0], arm="B7")]))
    with pytest.raises(UserError, match="twice"):
        analyse(replace(record, cells=[*record.cells, record.cells[0]]))


def test_a_run_that_ended_early_is_said() -> None:
    """A quick look killed on the way has whole blocks only, and still fewer than were planned."""
    record = make_record({"A1": 0.05, "A3": 0.0}, processes=1, blocks=400)
    killed = replace(record, cells=[c for c in record.cells if c.block < 300])
    said = next(c.message for c in analyse(killed).cautions if c.code == "incomplete_run")
    assert "300 of 400 planned blocks" in said
    assert "incomplete_run" not in codes(analyse(record))


def test_processes_without_a_metric_leave_no_clock_conflict() -> None:
    """Time of eight processes cannot be set against cycles of seven."""
    record = changed(
        make_record(ARMS, clock_mhz={"A1": 1450.0}),
        lambda c: replace(c, sm_cycles=math.nan) if c.process == 0 else c,
    )
    assert one(analyse(record), "A1", "A3", "cycles").inference.n == 7
    assert analyse(record).conflicts == ()


def test_a_torn_line_is_reported() -> None:
    assert "torn_line" in codes(analyse(replace(make_record(ARMS), torn_line=77)))


def test_time_and_cycles_that_disagree_are_explained_by_the_clock() -> None:
    result = analyse(make_record(ARMS, clock_mhz={"A1": 1450.0}))
    conflict = next(c for c in result.conflicts if c.a == "A1")
    assert conflict.explained
    assert conflict.time_percent - conflict.cycles_percent == pytest.approx(3.55, abs=0.3)
    assert "1450 MHz in A1, 1500 MHz in A3, which accounts for it" in conflict.reason
    assert "time_and_cycles_disagree" in codes(result)
    assert not analyse(make_record(ARMS)).conflicts


def test_a_disagreement_that_the_clock_does_not_explain_says_so() -> None:
    record = changed(
        make_record(ARMS, clock_mhz={"A1": 1450.0}), lambda c: replace(c, clock_mhz=1500.0 + 0.01 * c.block)
    )
    conflict = next(c for c in analyse(record).conflicts if c.a == "A1")
    assert not conflict.explained
    assert "does not account" in conflict.reason


def test_launches_are_divided_out() -> None:
    record = make_record(ARMS)
    longer = changed(
        record,
        lambda c: replace(c, launches=20, time_ns=2 * c.time_ns, sm_cycles=2 * c.sm_cycles) if c.arm == "A1" else c,
    )
    assert one(analyse(longer), "A1", "A3").inference.theta == pytest.approx(
        one(analyse(record), "A1", "A3").inference.theta
    )


def test_arm_summaries_are_per_launch() -> None:
    summary = {arm.arm: arm for arm in analyse(make_record({"A1": 0.0, "A3": 0.0}, within=1e-4, between=1e-4)).arms}
    assert summary["A3"].sm_cycles == pytest.approx(1e6, rel=0.05)
    assert summary["A3"].clock_mhz == 1500
    assert summary["A3"].clock_measured
    unmeasured = analyse(changed(make_record({"A1": 0.0, "A3": 0.0}), lambda c: replace(c, clock_mhz=math.nan))).arms
    assert unmeasured[0].clock_mhz == pytest.approx(1500)
    assert not unmeasured[0].clock_measured


def test_json_holds_what_the_outputs_need() -> None:
    plain = json.loads(json.dumps(to_json(analyse(make_record(ARMS))), allow_nan=False))
    assert plain["analysis_schema"] == 1
    row = plain["comparisons"][0]
    assert row["inference"]["effect_percent"] == pytest.approx(3, abs=0.5)
    assert row["inference"]["t"]["percent"][0] < row["inference"]["t"]["percent"][1]
    assert row["verdicts"] == ["DIFFERENT", "MATERIAL"]
    assert plain["records"][0]["clocks"] == "monitored, not locked"


def test_uneven_processes_are_said() -> None:
    record = changed(make_record(ARMS), lambda c: None if c.process == 0 and c.block > 4 else c)
    assert "uneven_processes" in codes(analyse(record))
    assert np.isfinite(one(analyse(record), "A1", "A3").inference.theta)
