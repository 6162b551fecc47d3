"""Which blocks the rule leaves out, and why: whole blocks, blind to the arm, by reasons that the config can state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stats.analysis.compare import analyse
from stats.analysis.exclusion import ExclusionRule, apply_rule, rule_of
from stats.analysis.grid import lay_out
from stats.analysis.results import Analysis
from stats.base.errors import UserError
from stats.record.schema import CellRow
from tests.makers.synthetic import changed, make_record

ARMS = {"A1": 0.03, "A2L": 0.002, "A3": 0.0, "A3.twin": 0.0}


def test_a_whole_block_goes_with_all_its_arms() -> None:
    record = changed(
        make_record(ARMS),
        lambda c: replace(c, throttle_reasons=("HwSlowdown",)) if c.block == 2 and c.arm == "A1" else c,
    )
    grid, exclusion = apply_rule(lay_out(record), ExclusionRule())
    assert not grid.accepted[:, 2].any()
    assert exclusion.accepted == 152
    assert exclusion.by_reason == {"HwSlowdown": 8}
    assert exclusion.by_arm["A1"] == {"HwSlowdown": 8}
    assert exclusion.by_arm["A3"] == {"HwSlowdown": 0}
    assert not exclusion.unreliable


def test_another_process_and_a_clock_out_of_tolerance() -> None:
    def disturb(c: CellRow) -> CellRow:
        if c.block == 0 and c.process == 1:
            return replace(c, other_processes=1)
        return replace(c, clock_mhz=1200.0) if c.block == 1 else c

    _, exclusion = apply_rule(lay_out(changed(make_record(ARMS), disturb)), ExclusionRule())
    assert exclusion.by_reason == {"another process on the GPU": 1, "measured clock out of tolerance": 8}


def test_states_that_slow_nothing_exclude_nothing() -> None:
    reasons = ("GpuIdle", "ApplicationsClocksSetting", "sw_power_cap")
    record = changed(make_record(ARMS), lambda c: replace(c, throttle_reasons=reasons))
    result = analyse(record)
    assert result.exclusions[0].accepted == 160
    assert "power_limited" in {caution.code for caution in result.cautions}


def test_the_config_states_the_rule() -> None:
    record = changed(make_record(ARMS), lambda c: replace(c, throttle_reasons=("sw_power_cap",)))
    strict = record.header.model_copy(update={"config": {"exclusion": {"allowed_reasons": ["gpu_idle"]}}})
    assert analyse(replace(record, header=strict)).accepted_blocks == 0


@pytest.mark.parametrize(
    "stated",
    [
        3,
        {"no_such": 1},
        {"clock_tolerance_percent": -1},
        {"clock_tolerance_percent": True},
        {"other_processes": "yes"},
        {"allowed_reasons": "all"},
    ],
)
def test_a_bad_rule_is_one_line(stated: object) -> None:
    with pytest.raises(UserError, match="exclusion"):
        rule_of({"exclusion": stated})


def test_above_a_fifth_the_run_is_unreliable() -> None:
    def throttled(blocks: int) -> Analysis:
        return analyse(
            changed(
                make_record(ARMS),
                lambda c: replace(c, throttle_reasons=("hw_slowdown",)) if c.block < blocks else c,
            )
        )

    assert not throttled(4).unreliable  # 20 % is not above 20 %
    result = throttled(5)
    assert result.unreliable
    assert any("UNRELIABLE" in c.message and "25 %" in c.message for c in result.cautions)


def test_the_rule_is_blind_to_the_arm() -> None:
    """An arm that lowers its own clock is not excluded for it: a block is judged by its mean over the arms."""
    record = make_record(ARMS, clock_mhz={"A1": 1300.0})
    _, exclusion = apply_rule(lay_out(record), ExclusionRule())
    assert exclusion.accepted == 160
