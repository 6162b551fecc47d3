"""The fit recovers a known line, covers it at the promised rate, and says so when cycles are no line."""

from __future__ import annotations

import math

import numpy as np
import pytest

from micro.bench.instructions.fit import errors_on_unseen, fit_line

WAYS = [1, 2, 4, 8, 16, 32]


def test_an_exact_line_is_recovered_exactly() -> None:
    line = fit_line(WAYS, [23 + 2 * (w - 1) for w in WAYS], 1)
    assert line.base_cycles == pytest.approx(23, abs=1e-9)
    assert line.cycles_per_wavefront == pytest.approx(2, abs=1e-12)
    assert line.warnings == ()
    assert line.predict(5) == pytest.approx(31)


def test_the_base_is_at_the_least_wavefronts_not_at_zero() -> None:
    line = fit_line([4, 8, 16, 32], [33 + 1.5 * (w - 4) for w in (4, 8, 16, 32)], 4)
    assert line.base_cycles == pytest.approx(33)


def test_intervals_cover_the_truth_at_the_stated_rate() -> None:
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(1000):
        line = fit_line(WAYS, [29 + 2 * (w - 1) + rng.normal(0, 0.05) for w in WAYS], 1)
        hits += line.slope_interval[0] <= 2 <= line.slope_interval[1]
    assert 926 <= hits <= 971  # exact binomial 99.9 % band of .95


def test_a_curve_is_flagged_and_the_line_is_not() -> None:
    curve = fit_line(WAYS, [29 + 0.1 * w**2 for w in WAYS], 1)
    assert any("not a line" in text for text in curve.warnings)
    step = fit_line(WAYS, [29, 29, 29, 37, 53, 85], 1)
    assert any("1 wavefronts took 29.00" in text for text in step.warnings)
    noisy = fit_line(WAYS, [29.01, 31.0, 34.98, 43.02, 59.0, 91.01], 1)
    assert noisy.warnings == ()


def test_no_line_from_too_little_or_from_nothing_finite() -> None:
    two = fit_line([1, 2, 2], [29, 31, 31], 1)
    assert math.isnan(two.base_cycles)
    assert "needs 3" in two.warnings[0]
    broken = fit_line(WAYS, [29, 31, math.nan, 43, 59, 91], 1)
    assert math.isnan(broken.cycles_per_wavefront)
    assert "not finite" in broken.warnings[0]
    assert math.isnan(errors_on_unseen(broken, [("random0", 3, 33.0)]).worst_error_percent)
    with pytest.raises(ValueError, match="one of each per pattern"):
        fit_line([1, 2], [1.0], 1)


def test_errors_on_unseen_patterns_are_signed_and_name_the_worst() -> None:
    line = fit_line(WAYS, [29 + 2 * (w - 1) for w in WAYS], 1)
    unseen = errors_on_unseen(line, [("random0", 3, 33.0), ("random1", 6, 40.0), ("broadcast", 1, 29.0)])
    assert unseen.patterns == 3
    assert unseen.worst_pattern == "random1"
    assert unseen.worst_error_percent == pytest.approx(100 * (39 / 40 - 1))
    assert unseen.mean_absolute_error_percent == pytest.approx(2.5 / 3)
    assert math.isnan(errors_on_unseen(line, []).mean_absolute_error_percent)
