"""What can be said of a mean and of a shift: intervals and exact p-values, for many samples at once.

Every function takes samples along the last axis and works on all leading axes together, so that the analysis of one
record and the simulation that proves it run the same code. The traps are guarded in ``stats.analysis.inference``:
nothing here may be given non-finite or constant data, for which scipy returns p = 0 or nan without an error.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

EXACT_FLIP_LIMIT = 12  # 2^12 sign patterns; above it the exact Wilcoxon test is as sharp, and far cheaper
EXACT_SPLIT_LIMIT = 20_000  # arrangements of two groups of processes; 8 + 8 has 12,870


def t_interval(x: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Student's t interval of the mean of ``x`` (..., n), n >= 2; the two ends, each of shape (...)."""
    from scipy import stats

    found = stats.ttest_1samp(x, 0.0, axis=-1).confidence_interval(confidence)
    return np.asarray(found.low), np.asarray(found.high)


def welch_interval(x: Floats, y: Floats, confidence: float) -> tuple[float, float]:
    """Welch's t interval of mean(x) - mean(y) for two independent samples of one dimension."""
    from scipy import stats

    found = stats.ttest_ind(x, y, equal_var=False).confidence_interval(confidence)
    return float(found.low), float(found.high)


@lru_cache(maxsize=256)
def _signed_rank_cdf(n: int) -> Floats:
    """P(W <= k) for Wilcoxon's signed-rank sum under the null: every subset of the ranks 1..n is equally likely."""
    chance = np.zeros(n * (n + 1) // 2 + 1)
    chance[0] = 1.0
    for rank in range(1, n + 1):
        with_rank = np.zeros_like(chance)
        with_rank[rank:] = chance[:-rank]
        chance = (chance + with_rank) / 2
    return np.asarray(np.cumsum(chance))


@lru_cache(maxsize=256)
def _rank_sum_cdf(n: int, m: int) -> Floats:
    """P(U <= k) for the Mann-Whitney U of n against m: the coefficients of the Gaussian binomial of n + m over n."""
    counts = [1] + [0] * (n * m)  # Python's integers: the products cancel and outgrow a double
    for i in range(1, n + 1):
        for k in range(n * m, m + i - 1, -1):
            counts[k] -= counts[k - m - i]
        for k in range(i, n * m + 1):
            counts[k] += counts[k - i]
    total = math.comb(n + m, n)
    return np.array([below / total for below in accumulate(counts)])


def _order_statistic(cdf: Floats, confidence: float) -> tuple[int, float]:
    """How many of the sorted values to cut at each end, and the confidence attained (which may be below the asked)."""
    tail = (1 - confidence) / 2
    cut = max(int(np.searchsorted(cdf, tail * (1 + 1e-12), side="right")) - 1, 0)
    return cut, 1 - 2 * float(cdf[cut])


def _walsh(x: Floats) -> Floats:
    i, j = np.triu_indices(x.shape[-1])
    return np.sort((x[..., i] + x[..., j]) / 2, axis=-1)


def hodges_lehmann(x: Floats) -> Floats:
    """Median of the Walsh averages (x_i + x_j) / 2, i <= j, of ``x`` (..., n) (Hodges and Lehmann 1963)."""
    return np.asarray(np.median(_walsh(x), axis=-1))


def hodges_lehmann_interval(x: Floats, confidence: float) -> tuple[Floats, Floats, float]:
    """The interval that inverts the exact Wilcoxon signed-rank test of ``x`` (..., n), and its attained confidence.

    The attained confidence is the smallest above the asked, or, when n is too small for that, the largest there is.
    """
    walsh = _walsh(x)
    cut, attained = _order_statistic(_signed_rank_cdf(x.shape[-1]), confidence)
    return walsh[..., cut], walsh[..., -1 - cut], attained


def shift(x: Floats, y: Floats) -> float:
    """Median of all differences x_i - y_j: the Hodges-Lehmann estimate for two independent samples."""
    return float(np.median(np.subtract.outer(x, y)))


def shift_interval(x: Floats, y: Floats, confidence: float) -> tuple[float, float, float]:
    """The interval that inverts the exact Mann-Whitney test of ``x`` against ``y``, and its attained confidence."""
    differences = np.sort(np.subtract.outer(x, y), axis=None)
    cut, attained = _order_statistic(_rank_sum_cdf(len(x), len(y)), confidence)
    return float(differences[cut]), float(differences[-1 - cut]), attained


def attainable_p(n: int) -> float:
    """The smallest two-sided p that n signs can give: all equal, 2^(1-n)."""
    return 2.0 ** (1 - n)


def attainable_p_unpaired(n: int, m: int) -> float:
    """The smallest two-sided p that the arrangements of n and m processes can give: 2 / C(n + m, n)."""
    return min(1.0, 2.0 / math.comb(n + m, n))


def binomial_band(rate: float, repetitions: int, confidence: float = 0.999) -> tuple[float, float]:
    """The central exact binomial band of an observed rate when the true one is ``rate``, in ``repetitions`` trials."""
    from scipy import stats

    tail = (1 - confidence) / 2
    low, high = stats.binom.ppf([tail, 1 - tail], repetitions, rate)
    return float(low) / repetitions, float(high) / repetitions


def processes_needed(alpha: float, family: int = 1) -> int:
    """Fewest processes whose smallest sign-flip p, times the family of comparisons, reaches ``alpha``."""
    return max(2, math.ceil(1 + math.log2(family / alpha) - 1e-9))


def _signed_sums(x: Floats) -> Floats:
    """Sums of ``x`` (rows, n) under each pattern of signs whose first is +, (rows, 2^(n-1)); the rest mirror them."""
    sums = x[:, :1]
    for column in x.T[1:]:
        sums = np.concatenate([sums + column[:, None], sums - column[:, None]], axis=1)
    return sums


def sign_flip_p(x: Floats) -> Floats:
    """Exact two-sided p of mean 0 for ``x`` (..., n): all 2^n sign patterns; above 12, exact Wilcoxon signed ranks.

    The same p as scipy's ``permutation_test(permutation_type="samples")``, which takes ten times as long for the many
    samples of a simulation.
    """
    n = x.shape[-1]
    if n > EXACT_FLIP_LIMIT:
        from scipy import stats

        return np.asarray(stats.wilcoxon(x, method="exact", axis=-1).pvalue)
    rows = np.ascontiguousarray(x.reshape(-1, n))
    # What rounding makes of a sum: the observed pattern must count as reaching itself.
    bound = np.abs(rows.sum(axis=1)) - 1e-13 * np.abs(rows).sum(axis=1)
    p = np.empty(len(rows))
    step = max(1, 2**18 >> n)  # keeps the sums in cache
    for i in range(0, len(rows), step):
        sums = np.abs(_signed_sums(rows[i : i + step]))
        p[i : i + step] = (sums >= bound[i : i + step, None]).mean(axis=1)
    return p.reshape(x.shape[:-1])


def _mean_difference(x: Any, y: Any, axis: int) -> Any:
    return np.mean(x, axis=axis) - np.mean(y, axis=axis)


def permutation_p(x: Floats, y: Floats) -> float:
    """Exact two-sided p of equal means of two independent samples; Mann-Whitney where the arrangements are too many."""
    from scipy import stats

    if math.comb(len(x) + len(y), len(x)) > EXACT_SPLIT_LIMIT:
        return float(stats.mannwhitneyu(x, y, method="exact").pvalue)
    found = stats.permutation_test(
        (x, y), _mean_difference, permutation_type="independent", vectorized=True, n_resamples=np.inf
    )
    return float(found.pvalue)
