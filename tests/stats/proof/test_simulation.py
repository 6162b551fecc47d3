"""The analysis holds its rates in every null family, and analyses known to be wrong do not: so the bands bite."""

from __future__ import annotations

import gc
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from stats.analysis import intervals
from stats.analysis.effect import log_margin
from stats.analysis.inference import infer
from stats.proof import simulate
from stats.proof.nulls import FAMILIES, NOISE, Design, Trials, ar1, in_order, process_means

REPETITIONS = 4000
ALPHA = 0.05


def rejects(x: np.ndarray) -> np.ndarray:
    """False positives of the t interval over the last axis."""
    low, high = intervals.t_interval(x, 1 - ALPHA)
    return np.asarray((low > 0) | (high < 0))


def outside(hits: np.ndarray, expected: float = ALPHA) -> bool:
    return not simulate.check("control", "rate", hits, expected).inside


@pytest.mark.parametrize(
    ("repetitions", "coverage", "false_positives"),
    [
        (1000, (0.926, 0.971), (0.029, 0.074)),
        (4000, (0.938, 0.961), (0.039, 0.062)),
        (10000, (0.943, 0.957), (0.043, 0.057)),
    ],
)
def test_the_bands_are_the_exact_binomial_ones(
    repetitions: int, coverage: tuple[float, float], false_positives: tuple[float, float]
) -> None:
    for rate, published in ((0.95, coverage), (0.05, false_positives)):
        low, high = intervals.binomial_band(rate, repetitions)
        assert (low, high) == pytest.approx(published, abs=0.0006)
        inside = stats.binom.cdf(high * repetitions + 0.5, repetitions, rate) - stats.binom.cdf(
            low * repetitions - 0.5, repetitions, rate
        )
        assert inside >= 0.999


@pytest.mark.parametrize("name", FAMILIES)
def test_every_null_family(name: str) -> None:
    checks = simulate.check_family(name, REPETITIONS)
    assert len(checks) == 5
    assert [one for one in checks if not one.inside] == []


@pytest.mark.parametrize("part", [simulate.holm_error, simulate.tost_size, simulate.stein, simulate.power_kept])
def test_families_margins_stages_and_power(part: object) -> None:
    checks = part(REPETITIONS)  # type: ignore[operator]
    assert len(checks) >= 2
    assert [one for one in checks if not one.inside] == []


def test_throttling_would_bias_without_the_blind_rule() -> None:
    rng = np.random.default_rng(1)
    trials = FAMILIES["asymmetric throttling"](rng, 500, Design())
    assert outside(rejects(process_means(Trials(trials.a, trials.b))))
    assert not outside(rejects(process_means(trials)))


def test_dropping_slow_cells_shrinks_a_true_effect() -> None:
    """Why nothing is trimmed: without the slowest cells of both arms together, the slower arm loses more of its own."""
    rng = np.random.default_rng(2)
    a, b = 0.02 + NOISE * rng.standard_normal(20_000), NOISE * rng.standard_normal(20_000)
    cut = np.quantile(np.concatenate([a, b]), 0.7)
    trimmed = a[a < cut].mean() - b[b < cut].mean()
    assert trimmed < 0.7 * 0.02


class TestNegativeControls:
    """Wrong analyses of the same worlds: each must leave the band that the right one stays in."""

    def test_pooled_cells(self) -> None:
        trials = FAMILIES["process effect"](np.random.default_rng(3), 1000, Design())
        d = trials.a - trials.b
        assert outside(rejects(d.reshape(len(d), -1)))
        assert rejects(d.reshape(len(d), -1)).mean() > 0.5
        assert not outside(rejects(d.mean(axis=2)))

    def test_arms_one_after_the_other(self) -> None:
        """AAAA BBBB under AR(1), rho .9, each cell taken as independent, against the same trials in random order."""
        rng = np.random.default_rng(4)
        series = ar1(rng, (1000, 1, 40), 0.9)[:, 0]
        a, b = series[:, :20], series[:, 20:]
        p = stats.ttest_ind(a, b, axis=1).pvalue
        assert outside(p < ALPHA)
        assert (p < ALPHA).mean() > 0.4
        dealt = in_order(rng, ar1(rng, (REPETITIONS, 8, 40), 0.9))
        assert not outside(rejects(process_means(dealt)))

    def test_peeking_until_it_looks_good(self) -> None:
        d = np.random.default_rng(5).standard_normal((1000, 50))
        found = np.zeros(len(d), dtype=bool)
        for n in range(5, 51):
            found |= rejects(d[:, :n])
        assert outside(found)
        assert found.mean() > 0.2
        assert not outside(rejects(d))

    def test_an_ordinary_interval_after_steins_first_stage(self) -> None:
        rng = np.random.default_rng(6)
        first, half_width = 8, 0.6
        x = rng.standard_normal((REPETITIONS, 200))
        spread = x[:, :first].std(axis=1, ddof=1)
        t = stats.t.ppf(0.975, first - 1)
        total = np.clip(np.ceil((spread * t / half_width) ** 2), first, 200).astype(int)
        covered = []
        for row, n in zip(x, total, strict=True):
            half = stats.t.ppf(0.975, n - 1) * row[:n].std(ddof=1) / np.sqrt(n)
            covered.append(abs(row[:n].mean()) <= half)
        assert outside(np.array(covered), 0.95)

    def test_no_adjustment_for_the_family(self) -> None:
        p = simulate._family_p(REPETITIONS, [0.0] * 4, seed=1)
        assert outside((p <= ALPHA).any(axis=1))

    def test_straddling_zero_is_no_equivalence(self) -> None:
        """Noise that hides an effect on the margin 'does not differ' nearly always: as a test of sameness, useless."""
        margin = log_margin(0.5)
        theta = margin + 4 * margin * np.random.default_rng(7).standard_normal((1000, 8))
        assert outside(~rejects(theta))

    def test_a_promise_of_the_t_test_alone_is_too_much(self) -> None:
        from stats.analysis.plan import t_power

        rng = np.random.default_rng(8)
        found = simulate.detects(rng.standard_normal((REPETITIONS, 8)) + 1.0)
        assert outside(found, t_power(1.0, 1.0, 8))


def test_holm_on_many_rows_is_statsmodels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc, "collect", lambda *_: 0)  # multipletests calls it for each row
    p = np.random.default_rng(9).random((12, 5)) ** 3
    assert simulate.holm_rejects(p).tolist() == [multipletests(row, method="holm")[0].tolist() for row in p]


def test_simulated_means_give_the_verdicts_of_the_analysis() -> None:
    means = simulate.family_means("laplace", 50, seed=3) + 0.004
    found = [infer(row) for row in means]
    low, high = intervals.t_interval(means, 0.95)
    assert [(one.t.low, one.t.high) for one in found if one.t] == list(zip(low, high, strict=True))


def test_a_family_is_the_same_for_the_same_seed_only() -> None:
    one = simulate.family_means("normal", 30, seed=1)
    assert np.array_equal(one, simulate.family_means("normal", 30, seed=1))
    assert not np.array_equal(one, simulate.family_means("normal", 30, seed=2))
    assert len(simulate.family_means("normal", 1030, seed=1)) == 1030


def test_orders_are_balanced() -> None:
    trials = np.broadcast_to(np.arange(40.0), (5, 8, 40))
    dealt = in_order(np.random.default_rng(1), trials.copy())
    assert ((dealt.a - dealt.b).sum(axis=2) == 0).all()  # as often first as second
    assert np.abs(dealt.a - dealt.b).max() == 1  # neighbours only


class TestCampaign:
    def test_it_is_recorded_with_its_bands(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        out = tmp_path / "rates.json"
        assert simulate.main(["--reps", "500", "--out", str(out)]) == 0
        written = json.loads(out.read_text())
        assert written["repetitions"] == 500
        assert len(written["checks"]) > 50
        assert all(row["inside"] for row in written["checks"])
        assert "0 outside their 99.9 % bands" in capsys.readouterr().out

    def test_a_rate_outside_its_band_fails_it(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        wrong = simulate.check("world", "rate", np.ones(500, dtype=bool), 0.05)
        monkeypatch.setattr(simulate, "campaign", lambda *_: [wrong])
        assert simulate.main(["--reps", "500"]) == 1
        assert "OUTSIDE" in capsys.readouterr().out

    def test_a_control_inside_its_band_fails_it(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        hits = np.arange(500) % 20 == 0
        right = simulate.check("world", "rate", hits, 0.05)
        tame = replace(right, control=True)
        monkeypatch.setattr(simulate, "campaign", lambda *_: [right, tame])
        assert simulate.main(["--reps", "500", "--out", str(tmp_path / "f.json")]) == 1
        said = capsys.readouterr().out
        assert "1 rates, 0 outside their 99.9 % bands; 1 controls, 1 inside" in said
        assert "INSIDE: a control must not be" in said
        written = json.loads((tmp_path / "f.json").read_text())
        assert [len(written[part]) for part in ("checks", "controls")] == [1, 1]
        wild = replace(tame, rate=0.5)
        monkeypatch.setattr(simulate, "campaign", lambda *_: [right, wild])
        assert simulate.main(["--reps", "500"]) == 0

    @pytest.mark.parametrize("arguments", [["--reps", "5"], ["--seed", "-1"], ["--reps", "x"]])
    def test_bad_options(self, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as stop:
            simulate.main(arguments)
        assert stop.value.code == 2
        assert "error" in capsys.readouterr().err

    def test_a_folder_that_is_not_there(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(simulate, "campaign", lambda *_: [])
        with pytest.raises(Exception, match="cannot be written"):
            simulate.main(["--reps", "500", "--out", str(tmp_path / "none" / "f.json")])


def test_the_recorded_campaign_is_inside_its_bands() -> None:
    recorded = json.loads((Path(__file__).parents[3] / "results" / "simulation.json").read_text())
    assert recorded["repetitions"] == 10_000
    worlds = {row["world"] for row in recorded["checks"]}
    assert set(FAMILIES) <= worlds
    for row in recorded["checks"]:
        low, high = intervals.binomial_band(row["expected"], row["repetitions"])
        if row["quantity"] != "power promised":
            assert (row["low"], row["high"]) == pytest.approx((low, high))
        assert (0 if row["at_most"] else row["low"]) <= row["rate"] <= row["high"]


def test_the_recorded_controls_are_outside_the_same_bands() -> None:
    recorded = json.loads((Path(__file__).parents[3] / "results" / "simulation.json").read_text())
    assert not any(row["control"] for row in recorded["checks"])
    assert len(recorded["controls"]) == 4
    for row in recorded["controls"]:
        assert row["control"]
        assert (row["low"], row["high"]) == pytest.approx(intervals.binomial_band(row["expected"], row["repetitions"]))
        assert not row["low"] <= row["rate"] <= row["high"]


def test_the_controls_leave_their_bands_at_any_seed() -> None:
    for seed in (2, 3):
        found = simulate.negative_controls(100, seed)
        assert [(one.inside, one.holds) for one in found] == [(False, True)] * 4
