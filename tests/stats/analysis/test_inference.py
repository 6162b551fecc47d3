"""Process means in, an Inference out: what it says, what it refuses to say, and the exact symmetries."""

from __future__ import annotations

import dataclasses
import gc
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from stats.analysis.effect import Inference, format_p, log_margin, percent
from stats.analysis.inference import (
    batch_means,
    holm,
    infer,
    infer_unpaired,
    minimum_detectable_effect,
    tost_p,
    tost_p_unpaired,
)
from stats.analysis.verdicts import Verdict, decide

EFFECT = np.array([0.021, 0.018, 0.024, 0.020, 0.019, 0.022, 0.017, 0.023])
TESTABLE = infer(EFFECT)


def finite_or_absent(found: Inference) -> None:
    """No figure of a testable result is nan, no p is 0, and an untestable one shows neither p nor primary interval."""
    if found.untestable:
        assert found.t is None
        assert math.isnan(found.p)
        assert decide(found, 0.005).verdicts == (Verdict.UNTESTABLE,)
        return
    assert 0 < found.p_minimum <= found.p * (1 + 1e-9)
    assert found.p <= 1
    for interval in (found.t, found.t_tost, found.hl, found.hl_tost, found.t_simultaneous):
        assert interval is not None
        assert math.isfinite(interval.low)
        assert interval.low <= interval.high


def test_the_numbers_are_those_of_the_libraries() -> None:
    found = infer(EFFECT)
    t = stats.ttest_1samp(EFFECT, 0).confidence_interval(0.95)
    assert found.t is not None
    assert (found.t.low, found.t.high) == pytest.approx((t.low, t.high))
    assert found.effect_percent == pytest.approx(100 * (math.exp(EFFECT.mean()) - 1))
    assert found.p == pytest.approx(2 / 256)
    assert found.hl_theta == pytest.approx(np.median([(a + b) / 2 for i, a in enumerate(EFFECT) for b in EFFECT[i:]]))


def test_the_effect_is_no_mean_of_ratios() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.lognormal(0, 0.3, (2, 8, 400))
    forward, backward = infer(np.log(a / b).mean(axis=1)), infer(np.log(b / a).mean(axis=1))
    assert (a / b).mean() > 1.05  # the mean of ratios is wrong in both directions
    assert (b / a).mean() > 1.05
    assert forward.theta == pytest.approx(-backward.theta)
    assert abs(forward.effect_percent) < 2


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4])
def test_too_few_says_how_many_are_needed(n: int) -> None:
    found = infer(EFFECT[:n])
    assert found.untestable is not None
    assert "6 processes are needed" in found.untestable or "6 are needed" in found.untestable
    finite_or_absent(found)
    assert found.hl is None if n < 2 else found.hl is not None and found.hl.confidence == 1 - 2.0 ** (1 - n)


def test_five_processes_print_the_attainable_minimum_and_declare_no_difference() -> None:
    found = infer(EFFECT[:5])
    decision = decide(found, log_margin(0.5))
    assert found.p_minimum == 0.0625
    assert decision.verdicts == (Verdict.INCONCLUSIVE,)
    assert any(c.code == "p_beyond_reach" and "0.0625" in c.message for c in decision.cautions)
    near_zero = infer(EFFECT[:5] - 0.02)
    assert decide(near_zero, log_margin(5)).verdicts == (Verdict.EQUIVALENT,)  # level .10 is within reach


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_non_finite_values_are_untestable(bad: float) -> None:
    for found in (infer([*EFFECT, bad]), infer_unpaired([*EFFECT, bad], EFFECT), infer_unpaired(EFFECT, [bad, 1, 2])):
        assert found.untestable == "a value is not a finite number"
        finite_or_absent(found)


@pytest.mark.parametrize("value", [0.0, 0.02, -5.0])
def test_identical_ratios_get_an_exact_statement_and_no_p(value: float) -> None:
    found = infer([value] * 8)
    assert found.untestable is not None
    assert "exactly" in found.untestable
    finite_or_absent(found)
    rounded = infer(value + np.array([0, 1, -1, 0, 1, 0, 0, 1]) * np.spacing(max(abs(value), 1)))
    assert rounded.untestable is not None


def test_unpaired_constant_and_identical_sides_are_untestable() -> None:
    other = EFFECT + 1
    for x, y in ((np.ones(8), np.ones(8)), (np.ones(8), other), (other, np.ones(8)), (other, other)):
        found = infer_unpaired(x, y)
        assert found.untestable
        finite_or_absent(found)


def test_unpaired_with_too_few_says_so() -> None:
    for x, y in (([], []), ([1.0], EFFECT), (EFFECT[:2], EFFECT[:3])):
        found = infer_unpaired(x, y)
        assert found.untestable is not None
        assert "4 in each" in found.untestable


@given(st.lists(st.floats(width=64), max_size=14))
@settings(max_examples=150, deadline=None)
def test_no_data_give_nan_p_of_zero_or_a_traceback(values: list[float]) -> None:
    finite_or_absent(infer(values))
    finite_or_absent(infer_unpaired(values, EFFECT))
    finite_or_absent(infer_unpaired(values[: len(values) // 2], values[len(values) // 2 :]))


@given(st.lists(st.floats(-0.5, 0.5), min_size=6, max_size=10))
@settings(max_examples=60, deadline=None)
def test_swapping_arms_flips_the_sign_and_nothing_else(values: list[float]) -> None:
    found, swapped = infer(values), infer(-np.array(values))
    assert swapped.theta == -found.theta
    assert (swapped.p == found.p) or found.untestable
    assert decide(found, 0.01).verdicts == decide(swapped, 0.01).verdicts


@given(st.floats(1e-3, 1e3))
@settings(max_examples=30, deadline=None)
def test_another_unit_of_time_changes_nothing(scale: float) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.lognormal(0, 0.02, (2, 8))
    one, other = infer(np.log(a) - np.log(b)), infer(np.log(scale * a) - np.log(scale * b))
    assert other.theta == pytest.approx(one.theta, abs=1e-12)
    assert other.t is not None
    assert one.t is not None
    assert other.t.low == pytest.approx(one.t.low, abs=1e-12)
    assert other.p == one.p


def test_equivalence_p_and_interval_agree() -> None:
    for margin in (0.015, 0.0225, 0.03):
        found = infer(EFFECT)
        assert found.t_tost is not None
        assert found.t_tost.inside(margin) == (tost_p(EFFECT, margin) < 0.05)
    unpaired = infer_unpaired(EFFECT + 1, EFFECT[::-1] * 2 + 1)
    assert unpaired.t_tost is not None
    for margin in (0.01, 0.02, 0.025, 0.03):
        p = tost_p_unpaired(EFFECT + 1, EFFECT[::-1] * 2 + 1, margin)
        assert unpaired.t_tost.inside(margin) == (p < 0.05)


@given(st.lists(st.one_of(st.floats(0, 1), st.sampled_from([0.01, 0.04])), min_size=1, max_size=12))
@settings(max_examples=60, deadline=None)
def test_holm_is_statsmodels(raw: list[float]) -> None:
    found = holm([replace(TESTABLE, p=p) for p in raw])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "collect", lambda *_: 0)  # multipletests calls it each time
        assert [member.p_holm for member in found] == multipletests(raw, method="holm")[1].tolist()


def test_holm_counts_members_that_have_no_p() -> None:
    found = holm([infer(EFFECT, family=3), infer(EFFECT - 0.02, family=3), infer([1.0], family=3)])
    assert found[0].p_holm == pytest.approx(3 * 2 / 256)
    assert found[2].untestable
    assert math.isnan(found[2].p_holm)
    assert holm([]) == []


def test_the_simultaneous_interval_has_the_bonferroni_level() -> None:
    found = infer(EFFECT, family=5)
    t = stats.ttest_1samp(EFFECT, 0).confidence_interval(0.99)
    assert found.t_simultaneous is not None
    assert found.t_simultaneous.low == pytest.approx(t.low)
    assert found.t_simultaneous.confidence == pytest.approx(0.99)


def test_minimum_detectable_effect_has_the_power_it_says() -> None:
    size = minimum_detectable_effect(0.01, 8) / 0.01
    critical = stats.t.ppf(0.975, 7)
    beyond = stats.nct.sf(critical, 7, size * math.sqrt(8)) + stats.nct.cdf(-critical, 7, size * math.sqrt(8))
    assert beyond == pytest.approx(0.8, abs=1e-3)
    assert math.isnan(minimum_detectable_effect(0.01, 1))
    assert minimum_detectable_effect(0.01, 8, 8) > minimum_detectable_effect(0.01, 8)


@pytest.mark.parametrize(
    ("p", "printed"),
    [(0.5, "0.500"), (0.0078125, "0.0078"), (0.0001, "0.0001"), (9e-5, "<1e-4"), (0.0, "<1e-4"), (math.nan, "-")],
)
def test_p_is_never_printed_as_zero(p: float, printed: str) -> None:
    assert format_p(p) == printed
    assert format_p(1e-9, resolution=1e-6) == "<1e-6"


def test_percent_and_margin() -> None:
    assert percent(math.log(1.02)) == pytest.approx(2)
    assert percent(log_margin(0.5)) == pytest.approx(0.5)
    assert percent(1e4) == math.inf


def test_batch_means_use_every_block() -> None:
    d = np.arange(205.0)
    means = batch_means(d)
    assert len(means) == 10
    assert means[0] == d[:21].mean()


def test_results_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        infer(EFFECT).p = 0.0  # type: ignore[misc]
