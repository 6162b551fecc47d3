"""Which verdicts hold: the sets, the disagreements and the refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stats.analysis.effect import Inference, Interval, log_margin
from stats.analysis.inference import holm, infer
from stats.analysis.verdicts import Decision, Verdict, decide, detects, passes_aa

D, M, E, I = Verdict.DIFFERENT, Verdict.MATERIAL, Verdict.EQUIVALENT, Verdict.INCONCLUSIVE  # noqa: E741 (as in tables)
SHAPE = np.array([-1.5, -0.9, -0.4, -0.1, 0.2, 0.5, 0.9, 1.3])


def at(centre: float, spread: float) -> Inference:
    return infer(centre + spread * SHAPE)


def codes(decision: Decision) -> set[str]:
    return {caution.code for caution in decision.cautions}


@pytest.mark.parametrize(
    ("centre", "spread", "expected"),
    [
        (0.020, 0.001, (D, M)),
        (0.004, 0.0004, (D, E)),  # both: a difference that does not matter
        (0.000, 0.0004, (E,)),
        (0.005, 0.0005, (D,)),  # across the margin
        (0.000, 0.02, (I,)),
        (-0.020, 0.001, (D, M)),
        (-0.004, 0.0004, (D, E)),
    ],
)
def test_verdicts_are_sets(centre: float, spread: float, expected: tuple[Verdict, ...]) -> None:
    assert decide(at(centre, spread), log_margin(0.5)).verdicts == expected


def test_methods_that_disagree_are_inconclusive() -> None:
    # One far process widens the t interval over 0; the ranks of the other nine are not impressed.
    found = infer([0.010, 0.011, 0.012, 0.013, 0.014, 0.015, 0.016, 0.017, 0.018, 0.200])
    assert found.t is not None
    assert found.hl is not None
    assert found.hl.excludes_zero
    assert not found.t.excludes_zero
    decision = decide(found, log_margin(0.5))
    assert decision.verdicts == (I,)
    assert "methods_disagree" in codes(decision)


def test_a_claim_below_the_aa_deviation_is_refused() -> None:
    found = at(0.004, 0.0004)
    assert decide(found, log_margin(0.5), aa_limit=0.003).verdicts == (D, E)
    refused = decide(found, log_margin(0.5), aa_limit=0.0045)
    assert refused.verdicts == (E,)
    assert "below_aa" in codes(refused)
    assert decide(at(0.01, 0.001), log_margin(0.5), aa_limit=0.02).verdicts == (I,)


def test_holm_takes_back_a_lone_difference() -> None:
    weak = np.array([0.2, 0.4, 0.5, 0.7, 0.8, 0.9, 1.2, -0.15])  # sign-flip p .0156 alone
    members = [weak, *(np.roll(SHAPE, k) for k in range(5))]
    found = holm([infer(member, family=6) for member in members])
    alone = decide(infer(weak), log_margin(0.5))
    assert D in alone.verdicts
    in_family = decide(found[0], log_margin(0.5))
    assert D not in in_family.verdicts
    assert "not_confirmed" in codes(in_family)


def test_a_family_beyond_the_reach_of_the_exact_p_rests_on_the_simultaneous_interval() -> None:
    members = holm([infer(0.02 + 0.001 * np.roll(SHAPE, k), family=10) for k in range(10)])
    decision = decide(members[0], log_margin(0.5))
    assert members[0].p_holm > 0.05
    assert decision.verdicts == (D, M)
    assert "family_beyond_reach" in codes(decision)
    weak = holm([infer(0.0095 + 0.01 * np.roll(SHAPE, k), family=10) for k in range(10)])[0]
    assert decide(replace(weak, family=1, p_holm=weak.p), log_margin(0.05)).verdicts[0] is D
    assert D not in decide(weak, log_margin(0.05)).verdicts


def test_material_needs_the_simultaneous_interval() -> None:
    found = at(0.0068, 0.0015)
    assert M in decide(found, log_margin(0.5)).verdicts
    assert found.t_simultaneous is not None
    wide = replace(found, t_simultaneous=Interval(0.004, 0.0096, 0.99))
    assert decide(wide, log_margin(0.5)).verdicts == (D,)


def test_aa_passes_by_equivalence_not_by_straddling_zero() -> None:
    margin = log_margin(0.5)
    assert passes_aa(at(0.0, 0.03), margin) is False  # straddles 0 and says nothing
    assert passes_aa(at(0.001, 0.0003), margin) is True  # excludes 0 and is the same for all purposes
    assert passes_aa(infer([0.1]), margin) is None


def test_the_vectorised_rule_is_the_rule() -> None:
    rng = np.random.default_rng(2)
    for family in (1, 4, 12):
        x = rng.normal(0.9, 1, (300, 8))
        many = detects(x, family=family)
        single = []
        for row in x:
            found = infer(row, family=family)
            found = replace(found, p_holm=min(1.0, found.p * family))
            single.append(D in decide(found, 1e-9).verdicts)
        # decide() also asks that both methods agree on MATERIAL at this margin, which is DIFFERENT over again here
        assert many.tolist() == single
        assert 0 < many.sum() < 300
    assert not detects(rng.normal(5, 1, (10, 5))).any()
