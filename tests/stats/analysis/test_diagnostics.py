"""Position, warm-up, autocorrelation and clock: each fires on what it is for, and stays quiet otherwise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from statsmodels.stats.diagnostic import acorr_ljungbox

from stats.analysis.compare import analyse
from stats.analysis.diagnostics import autocorrelation, clock_shape, ljung_box, position_effect, warmup_slope
from stats.analysis.grid import Grid, lay_out
from stats.record.schema import CellRow
from tests.makers.synthetic import make_record

ARMS = {"A1": 0.03, "A2L": 0.0, "A3": 0.0}


def disturbed(change: Callable[[CellRow], float], processes: int = 8, blocks: int = 20) -> Grid:
    """A record whose figures and clock are multiplied by exp(change) of their place."""
    record = make_record(ARMS, within=0.002, processes=processes, blocks=blocks)
    cells = [
        replace(c, time_ns=c.time_ns * math.exp(change(c)), sm_cycles=c.sm_cycles * math.exp(change(c)))
        for c in record.cells
    ]
    return lay_out(replace(record, cells=cells))


def clocked(clock: Callable[[CellRow], float], processes: int = 8) -> Grid:
    record = make_record(ARMS, processes=processes)
    return lay_out(replace(record, cells=[replace(c, clock_mhz=clock(c)) for c in record.cells]))


def test_quiet_data_fire_nothing() -> None:
    grid = disturbed(lambda c: 0.0)
    assert position_effect(grid, "cycles").caution is None
    assert warmup_slope(grid, "cycles").caution is None
    result = analyse(make_record(ARMS))
    assert not {"clock_bimodal", "clock_ramping", "autocorrelated"} & {c.code for c in result.cautions}


@pytest.mark.parametrize(("processes", "blocks"), [(8, 20), (1, 60)])
def test_position_effect_is_measured(processes: int, blocks: int) -> None:
    found = position_effect(disturbed(lambda c: 0.005 * c.position, processes, blocks), "time")
    assert found.percent == pytest.approx(1.0, abs=0.2)
    assert found.caution is not None
    assert found.caution.code == "position_effect"


@pytest.mark.parametrize(("processes", "blocks"), [(8, 20), (1, 60)])
def test_a_warmup_too_short_gives_a_slope(processes: int, blocks: int) -> None:
    found = warmup_slope(disturbed(lambda c: 0.03 * math.exp(-c.block / 4), processes, blocks), "time")
    assert found.percent < -0.3
    assert found.caution is not None
    assert found.caution.code == "warmup_slope"


def test_too_few_units_give_no_p() -> None:
    for processes, blocks in ((3, 20), (1, 2)):
        grid = disturbed(lambda c: 0.0, processes, blocks)
        assert math.isnan(position_effect(grid, "time").p)
        assert math.isnan(warmup_slope(grid, "time").p)


def test_ljung_box_is_statsmodels() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    for series in (x, np.cumsum(x), x - 5):
        lag1, p = ljung_box(series)
        expected = acorr_ljungbox(series, lags=[10])
        assert p == pytest.approx(float(expected["lb_pvalue"].iloc[0]))
        assert -1 <= lag1 <= 1
    for short in (x[:11], np.ones(40), np.empty(0)):
        assert math.isnan(ljung_box(short)[1])


def test_autocorrelation_fires_on_ar1_and_not_on_noise() -> None:
    rng = np.random.default_rng(1)
    noise = [rng.normal(size=100) for _ in range(8)]
    assert autocorrelation(noise).caution is None
    smooth = [np.convolve(rng.normal(size=140), 0.9 ** np.arange(40), "valid") for _ in range(8)]
    found = autocorrelation(smooth)
    assert found.lag1 > 0.7
    assert found.marked == 8
    assert found.caution is not None
    assert autocorrelation([]).processes == 0


def test_a_clock_of_two_states_is_flagged() -> None:
    rng = np.random.default_rng(2)
    low = {(p, b): rng.random() < 0.3 for p in range(8) for b in range(20)}
    shape = clock_shape(clocked(lambda c: (1410.0 if low[c.process, c.block] else 1755.0) + rng.normal(0, 3)))
    assert shape is not None
    assert shape.bimodal
    assert not shape.ramping
    assert "cycles" in shape.cautions[0].message


def test_a_ramping_clock_is_flagged() -> None:
    rng = np.random.default_rng(3)
    shape = clock_shape(clocked(lambda c: 1755.0 - 3 * c.block + rng.normal(0, 3)))
    assert shape is not None
    assert shape.ramping
    assert not shape.bimodal


@pytest.mark.parametrize("spread", [0.0, 3.0, 60.0])
def test_a_noisy_clock_is_neither(spread: float) -> None:
    rng = np.random.default_rng(4)
    shape = clock_shape(clocked(lambda c: rng.normal(1700, spread) if spread else 1700.0))
    assert shape is not None
    assert not shape.bimodal
    assert not shape.ramping


def test_arms_with_clocks_of_their_own_are_not_two_states() -> None:
    shape = clock_shape(lay_out(make_record(ARMS, clock_mhz={"A1": 1400.0})))
    assert shape is not None
    assert not shape.bimodal
    assert (shape.low_mhz, shape.high_mhz) == (1400, 1500)


def test_no_clock_no_shape() -> None:
    assert clock_shape(clocked(lambda c: math.nan)) is None
    partly = clock_shape(clocked(lambda c: math.nan if c.arm == "A1" else 1500.0))
    assert partly is not None
    assert not partly.ramping


def test_cycles_stay_comparable_when_the_clock_has_two_states() -> None:
    """Time carries the clock, cycles do not: the cycles interval covers the truth and is far the narrower."""
    rng = np.random.default_rng(5)
    record = make_record({"A1": 0.02, "A3": 0.0})
    cells = []
    for c in record.cells:
        clock = 1410.0 if rng.random() < 0.4 else 1755.0
        cells.append(replace(c, clock_mhz=clock, time_ns=c.sm_cycles / clock * 1e3))
    result = analyse(replace(record, cells=cells), margin_percent=0.5, rule=None)
    t = {c.metric: c.inference.t for c in result.comparisons}
    cycles, time = t["cycles"], t["time"]
    assert cycles is not None
    assert time is not None
    assert cycles.low < 0.02 < cycles.high
    assert (time.high - time.low) > 3 * (cycles.high - cycles.low)
