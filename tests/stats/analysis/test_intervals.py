"""The interval and exact-test functions against scipy's own, and against their definitions."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from stats.analysis import intervals


@pytest.mark.parametrize("n", [5, 6, 8, 10, 13])
@pytest.mark.parametrize("confidence", [0.90, 0.95])
def test_hodges_lehmann_inverts_the_exact_wilcoxon_test(n: int, confidence: float) -> None:
    x = np.random.default_rng(n).normal(0.3, 1.0, n)
    low, high, attained = intervals.hodges_lehmann_interval(x, confidence)
    alpha = 1 - min(confidence, attained)
    walsh = np.sort([(x[i] + x[j]) / 2 for i in range(n) for j in range(i, n)])
    # Between two neighbouring Walsh averages the test does not change: one theta there stands for all.
    thetas = np.concatenate([[walsh[0] - 1], (walsh[1:] + walsh[:-1]) / 2, [walsh[-1] + 1]])
    for theta in thetas:
        accepted = stats.wilcoxon(x - theta, method="exact").pvalue > alpha * (1 + 1e-12)
        assert accepted == (low < theta < high), theta


def test_hodges_lehmann_confidence_is_the_attained_one() -> None:
    x = np.arange(8.0)
    assert intervals.hodges_lehmann_interval(x, 0.95)[2] == 1 - 2 * 5 / 256  # four smallest rank sums: 0, 1, 2, 3 twice
    assert intervals.hodges_lehmann_interval(x[:5], 0.95)[2] == 1 - 2 / 32  # n = 5 cannot attain .95


@pytest.mark.parametrize(("n", "m"), [(4, 4), (3, 6), (8, 8), (7, 5)])
def test_shift_interval_inverts_the_exact_mann_whitney_test(n: int, m: int) -> None:
    rng = np.random.default_rng(n * m)
    x, y = rng.normal(0.5, 1, n), rng.normal(0, 1, m)
    low, high, attained = intervals.shift_interval(x, y, 0.95)
    assert attained >= 0.95
    differences = np.sort(np.subtract.outer(x, y).ravel())
    for theta in np.concatenate(
        [[differences[0] - 1], (differences[1:] + differences[:-1]) / 2, [differences[-1] + 1]]
    ):
        accepted = stats.mannwhitneyu(x - theta, y, method="exact").pvalue > 0.05 * (1 + 1e-12)
        assert accepted == (low < theta < high), theta


def test_sign_flip_p_counts_every_pattern() -> None:
    x = np.array([0.4, 1.1, -0.2, 0.9, 0.6, 0.3])
    means = [np.mean(x * signs) for signs in itertools.product([1, -1], repeat=6)]
    expected = np.mean([abs(mean) >= abs(x.mean()) - 1e-12 for mean in means])
    assert float(intervals.sign_flip_p(x)) == pytest.approx(expected)


@pytest.mark.parametrize("n", [5, 8, 11])
def test_sign_flip_p_is_scipys(n: int) -> None:
    x = np.random.default_rng(n).normal(0.2, 1, (50, n))
    x[:10] = np.round(x[:10])  # with ties
    x[0] = 0.0
    expected = stats.permutation_test(
        (x[1:],),
        lambda values, axis: values.mean(axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=np.inf,
        axis=-1,
    )
    assert intervals.sign_flip_p(x)[1:] == pytest.approx(expected.pvalue)
    assert intervals.sign_flip_p(x)[0] == 1


def test_sign_flip_p_works_on_many_samples_at_once() -> None:
    x = np.random.default_rng(3).normal(0.5, 1, (40, 7))
    assert intervals.sign_flip_p(x) == pytest.approx([float(intervals.sign_flip_p(row)) for row in x])


@pytest.mark.parametrize("n", [5, 6, 8, 12, 16])
def test_the_smallest_p_is_what_unanimous_signs_give(n: int) -> None:
    x = np.random.default_rng(n).uniform(1, 2, n)
    assert float(intervals.sign_flip_p(x)) == pytest.approx(intervals.attainable_p(n))


def test_above_the_limit_the_exact_wilcoxon_test_answers() -> None:
    x = np.random.default_rng(5).normal(0.4, 1, intervals.EXACT_FLIP_LIMIT + 4)
    assert float(intervals.sign_flip_p(x)) == stats.wilcoxon(x, method="exact").pvalue


def test_unpaired_p_is_exact_and_reaches_its_minimum() -> None:
    x, y = np.array([3.0, 4, 5, 6.5]), np.array([0.0, 0.5, 1, 2])
    assert intervals.permutation_p(x, y) == pytest.approx(2 / math.comb(8, 4))
    assert intervals.attainable_p_unpaired(4, 4) == pytest.approx(2 / math.comb(8, 4))
    rng = np.random.default_rng(1)
    big, other = rng.normal(0.3, 1, 12), rng.normal(0, 1, 12)
    assert intervals.permutation_p(big, other) == stats.mannwhitneyu(big, other, method="exact").pvalue


@pytest.mark.parametrize(("family", "needed"), [(1, 6), (2, 7), (6, 8), (7, 9)])
def test_processes_needed_is_the_first_that_reaches_alpha(family: int, needed: int) -> None:
    assert intervals.processes_needed(0.05, family) == needed
    assert intervals.attainable_p(needed) * family <= 0.05 < intervals.attainable_p(needed - 1) * family


numbers = st.floats(-3, 3, allow_nan=False).map(lambda x: round(x, 6))


@given(st.lists(numbers, min_size=5, max_size=12, unique=True))
@settings(max_examples=60, deadline=None)
def test_swapping_the_arms_flips_every_end_exactly(values: list[float]) -> None:
    x = np.array(values)
    for ends in (intervals.t_interval, lambda d, c: intervals.hodges_lehmann_interval(d, c)[:2]):
        low, high = ends(x, 0.95)
        flipped = ends(-x, 0.95)
        assert (float(low), float(high)) == (-float(flipped[1]), -float(flipped[0]))
    assert float(intervals.hodges_lehmann(x)) == -float(intervals.hodges_lehmann(-x))
    assert float(intervals.sign_flip_p(x)) == float(intervals.sign_flip_p(-x))
