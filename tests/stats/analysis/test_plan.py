"""Variance components, half-widths, promised power, Stein's rule, and targets that make no sense."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from stats.analysis.compare import analyse
from stats.analysis.effect import log_margin, percent
from stats.analysis.plan import half_width, plan, power_of_verdict, t_power
from stats.analysis.plan_text import render_plan
from stats.analysis.prepare import pair_means, prepare
from stats.analysis.stopping import stein_interval, stein_total
from stats.analysis.variance import VarianceComponents, variances
from stats.base.errors import UserError
from stats.record.schema import Record
from tests.makers.synthetic import make_record

WITHIN, BETWEEN = 0.004, 0.001


@pytest.fixture(scope="module")
def pilot() -> Record:
    return make_record({"A1": 0.02, "A3": 0.0, "A3.twin": 0.0}, processes=40, within=WITHIN, between=BETWEEN)


def test_variance_components_are_those_of_the_pilot(pilot: Record) -> None:
    found = variances(pilot, ("A1", "A3"), "cycles")
    assert found.within == pytest.approx(math.sqrt(2) * WITHIN, rel=0.15)  # of a difference of two cells
    assert found.between == pytest.approx(math.sqrt(2) * BETWEEN, rel=0.4)
    assert found.processes == 40
    assert found.blocks == 20


def test_autocorrelation_inflates_the_scatter_within() -> None:
    def pilot(rho: float) -> Record:
        rng = np.random.default_rng(1)
        record = make_record({"A1": 0.0, "A3": 0.0}, processes=8, blocks=100, within=1e-6, between=1e-6)
        state = 0.0
        cells = []
        for c in record.cells:
            if c.arm == "A1":
                state = rho * state + math.sqrt(1 - rho**2) * rng.normal()
                c = replace(c, sm_cycles=c.sm_cycles * math.exp(0.01 * state))
            cells.append(c)
        return replace(record, cells=cells)

    independent, similar = (variances(pilot(rho), ("A1", "A3"), "cycles") for rho in (0.0, 0.6))
    assert independent.lag1 < 0.1
    assert similar.lag1 == pytest.approx(0.6, abs=0.1)
    assert similar.within / independent.within == pytest.approx(2, rel=0.25)  # sqrt(1.6 / 0.4)


def test_expected_half_width_is_that_of_the_t_interval() -> None:
    units = np.random.default_rng(0).normal(0, 0.01, (4000, 8))
    ends = stats.ttest_1samp(units, 0, axis=1).confidence_interval(0.95)
    root_mean_square = float(np.sqrt((((ends.high - ends.low) / 2) ** 2).mean()))
    assert half_width(0.01, 8) == pytest.approx(root_mean_square, rel=0.02)


def test_the_plan_reaches_the_half_width(pilot: Record) -> None:
    found = plan(pilot, half_width_percent=0.15)
    assert found.options
    for option in found.options:
        spread = found.deciding.spread(option.blocks)
        assert option.half_width_percent == pytest.approx(percent(half_width(spread, option.processes)))
        assert option.half_width_percent <= 0.15
        assert option.blocks % 2 == 0
        assert option.power is None
    blocks = [option.blocks for option in found.options]
    assert blocks == sorted(blocks, reverse=True)  # more processes need fewer blocks


def test_a_run_as_planned_has_the_half_width_that_was_planned(pilot: Record) -> None:
    chosen = next(option for option in plan(pilot, half_width_percent=0.2).options if option.recommended)
    effects = {"A1": 0.02, "A3": 0.0}
    runs = [
        make_record(
            effects, processes=chosen.processes, blocks=chosen.blocks, within=WITHIN, between=BETWEEN, seed=seed
        )
        for seed in range(5)
    ]
    widths = [analyse(run, metric="cycles").comparisons[0].inference.half_width_percent for run in runs]
    assert np.median(widths) == pytest.approx(0.2, rel=0.35)


def test_the_recommended_plan_is_the_quickest_of_those_fit_for_a_claim(pilot: Record) -> None:
    found = plan(pilot, half_width_percent=0.15)
    chosen = [option for option in found.options if option.recommended]
    assert len(chosen) == 1
    assert chosen[0].gpu_time_s == min(o.gpu_time_s for o in found.options if o.processes >= 8)
    assert chosen[0].processes >= 8


def test_gpu_time_counts_start_and_blocks(pilot: Record) -> None:
    found = plan(pilot, half_width_percent=0.15)
    assert found.process_time_s == pytest.approx(0.5)
    assert found.block_time_s == pytest.approx(0.06)  # three arms of 0.02 s
    option = found.options[0]
    assert option.gpu_time_s == pytest.approx(option.processes * (0.5 + 0.06 * option.blocks))
    bare = replace(pilot, cells=[replace(c, started_s=math.nan) for c in pilot.cells])
    assert plan(bare, half_width_percent=0.15).block_time_s == pytest.approx(0.02, rel=0.1)  # sum of the cells


def test_promised_power_is_reached_and_below_that_of_t_alone(pilot: Record) -> None:
    found = plan(pilot, effect_percent=0.2, power=0.8)
    for option in found.options:
        assert option.power is not None
        assert option.t_power is not None
        assert 0.79 <= option.power < option.t_power
        spread = found.deciding.spread(option.blocks)
        assert t_power(log_margin(0.2), spread, option.processes) == option.t_power


def test_power_of_verdict() -> None:
    assert power_of_verdict(0.0, 1.0, 8) < 0.05
    assert power_of_verdict(5.0, 1.0, 8) == 1
    assert power_of_verdict(-1.2, 1.0, 8) == pytest.approx(power_of_verdict(1.2, 1.0, 8), abs=0.02)
    assert power_of_verdict(1.2, 1.0, 8, family=4) < power_of_verdict(1.2, 1.0, 8)
    assert power_of_verdict(9.0, 1.0, 5) == 0  # five signs cannot reach .05


def test_what_no_effect_shows_is_out_of_reach() -> None:
    from stats.analysis.plan import _needed_effect

    assert _needed_effect(0.8, 5, 0.05, 1) == math.inf
    assert 1 < _needed_effect(0.8, 8, 0.05, 1) < 1.5
    assert _needed_effect(0.8, 6, 0.05, 100) > 2 * _needed_effect(0.8, 6, 0.05, 1)


def test_the_hardest_pair_decides() -> None:
    record = make_record({"A1": 0.0, "A2": 0.0, "A3": 0.0}, processes=20)
    cells = [
        replace(c, sm_cycles=c.sm_cycles * (1 + 0.2 * ((c.process * 7 + c.block) % 3))) if c.arm == "A1" else c
        for c in record.cells
    ]
    found = plan(replace(record, cells=cells), half_width_percent=3)
    assert (found.deciding.a, found.deciding.b) == ("A1", "A3")
    assert len(found.components) == 2
    assert plan(replace(record, cells=cells), half_width_percent=3, a="A2").deciding.a == "A2"


def test_out_of_reach_is_said(pilot: Record) -> None:
    found = plan(pilot, half_width_percent=0.001)
    assert found.options == ()
    assert any(c.code == "out_of_reach" for c in found.cautions)
    assert not plan(pilot, effect_percent=0.001).options


def test_a_small_pilot_is_warned_of() -> None:
    small = make_record({"A1": 0.02, "A3": 0.0}, processes=3)
    assert any(c.code == "small_pilot" for c in plan(small, half_width_percent=1).cautions)


def test_a_large_family_is_warned_of() -> None:
    arms = {f"V{i}": 0.0 for i in range(9)} | {"A3": 0.0}
    found = plan(make_record(arms, processes=8), half_width_percent=1)
    assert any(c.code == "family_beyond_reach" for c in found.cautions)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "one of the two"),
        ({"half_width_percent": 0.1, "effect_percent": 0.1}, "one of the two"),
        ({"half_width_percent": 0.0}, "--half-width"),
        ({"half_width_percent": math.nan}, "--half-width"),
        ({"effect_percent": -1.0}, "--effect"),
        ({"effect_percent": 1.0, "power": 1.0}, "--power"),
        ({"effect_percent": 1.0, "a": "A9"}, "no arm 'A9'"),
        ({"effect_percent": 1.0, "b": "A3"}, "--a"),
    ],
)
def test_targets_without_sense_are_one_line(pilot: Record, asked: dict[str, float], said: str) -> None:
    with pytest.raises(UserError, match=said):
        plan(pilot, **asked)  # type: ignore[arg-type]


def test_pilots_that_tell_nothing_are_one_line() -> None:
    one = make_record({"A1": 0.0, "A3": 0.0}, processes=1)
    with pytest.raises(UserError, match="at least 2"):
        plan(one, half_width_percent=1)
    with pytest.raises(UserError, match="declares no comparisons"):
        plan(make_record({"A1": 0.0, "A3": 0.0}, comparisons=[]), half_width_percent=1)
    record = make_record({"A1": 0.0, "A3": 0.0})
    fixed = replace(record, cells=[replace(c, sm_cycles=1e6 + c.block) for c in record.cells])
    with pytest.raises(UserError, match="no scatter"):
        plan(fixed, half_width_percent=1)
    empty = replace(record, cells=[])
    with pytest.raises(UserError, match="no cells"):
        plan(empty, half_width_percent=1)


def test_spread_falls_to_what_differs_between_processes() -> None:
    parts = VarianceComponents("a", "b", "time", within=0.01, between=0.002, lag1=0.0, processes=8, blocks=20)
    assert parts.spread(1) == pytest.approx(math.hypot(0.01, 0.002))
    assert parts.spread(10**9) == pytest.approx(0.002)


class TestStein:
    FIRST = (0.01, 0.03, 0.02, 0.05, 0.04)

    def test_total_is_the_formula(self) -> None:
        s0, t = np.std(self.FIRST, ddof=1), stats.t.ppf(0.975, 4)
        assert stein_total(self.FIRST, 0.01) == math.ceil((s0 * t / 0.01) ** 2)
        assert stein_total(self.FIRST, 10.0) == 5

    def test_interval_keeps_the_first_stage(self) -> None:
        both = [*self.FIRST, *([0.03] * 15)]
        found = stein_interval(self.FIRST, both)
        half = stats.t.ppf(0.975, 4) * np.std(self.FIRST, ddof=1) / math.sqrt(20)
        assert (found.high - found.low) / 2 == pytest.approx(half)
        assert (found.high + found.low) / 2 == pytest.approx(np.mean(both))
        n = stein_total(self.FIRST, 0.01)
        kept = stein_interval(self.FIRST, [*self.FIRST, *([0.0] * (n - 5))])
        assert (kept.high - kept.low) / 2 <= 0.01

    def test_the_plan_offers_it_for_a_half_width(self) -> None:
        record = make_record({"A1": 0.02, "A2": 0.0, "A3": 0.0}, processes=6, within=WITHIN, between=BETWEEN)
        way = plan(record, half_width_percent=0.1).two_stages
        assert way is not None
        prepared = prepare(record)
        means = [pair_means(prepared, (arm, "A3"), "cycles").means for arm in ("A1", "A2")]
        assert way.first == 6
        assert way.processes == max(stein_total(first, log_margin(0.1)) for first in means) > 6
        assert 0.09 < way.half_width_percent <= 0.1
        said = render_plan(plan(record, half_width_percent=0.1), "table")
        assert f"the pilot's 6 processes count, and {way.processes} in all" in said
        assert plan(record, effect_percent=1.0).two_stages is None
        assert "Stein" not in render_plan(plan(record, effect_percent=1.0), "table")
        stricter = plan(record, half_width_percent=0.1, alpha=0.01).two_stages
        assert stricter is not None
        assert stricter.processes > way.processes

    def test_bad_stages_are_one_line(self) -> None:
        for call in (
            lambda: stein_total([1.0], 0.1),
            lambda: stein_total([1.0, math.nan], 0.1),
            lambda: stein_total(self.FIRST, 0.0),
            lambda: stein_interval(self.FIRST, self.FIRST[:3]),
        ):
            with pytest.raises(UserError):
                call()
