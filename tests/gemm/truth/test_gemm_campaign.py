"""Campaigns judged from records in which the truth is known, and records that must be found wanting."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from gemm.cli.app import app
from gemm.truth.campaign_report import aa_rows, inject_rows, judge
from gemm.truth.campaigns import CAMPAIGN_TOOL, Campaign, pair_names
from stats.base.errors import BenchError, UserError
from stats.record.schema import CellRow, Record
from tests.makers.synthetic import make_header

PROCESSES, BLOCKS, CELL_CYCLES = 8, 6, 4e5


def campaign(effects: list[float], *, lie_percent: float = 0.0, spread: float = 0.0005, seed: int = 3) -> Record:
    """A record whose longer arms are longer by what was injected, and by ``lie_percent`` that nobody injected."""
    rng = np.random.default_rng(seed)
    pairs = pair_names(effects)
    arms = [arm for pair in pairs for arm in pair]
    record = Record(
        header=make_header(
            arms,
            tool=CAMPAIGN_TOOL,
            comparisons=pairs,
            processes=PROCESSES,
            blocks=BLOCKS,
            config={"effects_percent": effects},
        )
    )
    for process in range(PROCESSES):
        own = rng.normal(0, spread, len(arms))
        for block in range(BLOCKS):
            level = CELL_CYCLES * math.exp(rng.normal(0, 0.01))
            for i, arm in enumerate(arms):
                injected = CELL_CYCLES * effects[i // 2] / 100 if i % 2 == 0 else 0.0
                lie = 1 + lie_percent / 100 if i % 2 == 0 else 1.0
                cycles = (level * math.exp(own[i] + rng.normal(0, spread)) * lie) + injected
                record.add(
                    CellRow(
                        process=process,
                        block=block,
                        position=i,
                        arm=arm,
                        launches=1,
                        time_ns=cycles / 1.5,
                        sm_cycles=cycles,
                        clock_mhz=1500.0,
                        started_s=1.0 + 0.001 * (block * len(arms) + i),
                        values={"injected_cycles": round(injected)},
                    )
                )
    return record


def test_the_same_code_is_called_different_as_rarely_as_it_should_be() -> None:
    rows = aa_rows(judge([campaign([0.0] * 100, seed=seed) for seed in (1, 2)]))
    assert [row["metric"] for row in rows] == ["cycles", "time"]
    for row in rows:
        assert row["verdicts"] == 200
        assert row["inside"] == "yes", row
        assert row["different"] <= row["excludes_zero"]


def test_a_twin_that_is_not_the_same_code_leaves_the_band() -> None:
    for row in aa_rows(judge([campaign([0.0] * 100, lie_percent=0.1)])):
        assert row["inside"] == "NO", row


def test_injected_effects_are_found_covered_and_unbiased() -> None:
    rows = inject_rows(judge([campaign([0.05] * 40 + [0.5] * 40 + [5.0] * 40)]))
    assert [row["effect_percent"] for row in rows] == [0.05, 0.05, 0.5, 0.5, 5.0, 5.0]
    for row in rows:
        assert row["inside"] == "yes", row
        assert row["truth_percent"] == pytest.approx(row["effect_percent"], rel=0.01)
        assert abs(row["error_percent"]) < 0.02
    assert rows[0]["promised_percent"] < 60 < rows[2]["promised_percent"]
    assert rows[4]["detected"] == 40


def test_an_effect_that_is_not_what_was_injected_is_not_covered() -> None:
    for row in inject_rows(judge([campaign([0.5] * 60, lie_percent=0.1)])):
        assert row["inside"] == "NO", row
        assert row["error_percent"] == pytest.approx(0.1, abs=0.03)


def test_a_record_of_something_else_is_refused() -> None:
    other = campaign([0.0])
    other.header = other.header.model_copy(update={"tool": "gemm-bench"})
    with pytest.raises(UserError, match="a record of gemm-bench, not of a campaign"):
        judge([other])


def test_each_campaign_reads_its_own_records_only() -> None:
    same, injected = campaign([0.0] * 2), campaign([0.5] * 2)
    with pytest.raises(UserError, match="a record of injected effects, not of A/A; gemm-bench inject reads it"):
        aa_rows(judge([same, injected]))
    with pytest.raises(UserError, match="a record of A/A, not of injected effects; gemm-bench aa reads it"):
        inject_rows(judge([injected, same]))


def test_too_few_processes_give_no_rows_instead_of_a_rate() -> None:
    one = campaign([0.0, 0.0])
    one.cells = [replace(cell) for cell in one.cells if cell.process == 0]
    assert aa_rows(judge([one])) == []


def asked(monkeypatch: pytest.MonkeyPatch, *arguments: str, lie_percent: float = 0.0) -> tuple[Any, list[Any]]:
    """The command without a GPU: what a run would have been asked is noted, and a record comes back."""
    designs: list[Any] = []

    def run(design: Campaign, *, device_index: int, out: Path | None, clocks: str, progress: object) -> Record:
        designs.append((design.seed, device_index, out and out.name, clocks))
        return campaign(list(design.effects_percent), lie_percent=lie_percent, seed=design.seed)

    monkeypatch.setattr("gemm.truth.campaigns.run_campaign", run)
    monkeypatch.setattr("gemm.cli.campaigns.need_gpu", lambda what, device: None)
    return CliRunner().invoke(app, arguments), designs


def test_each_run_of_a_campaign_has_its_own_seed_and_file(monkeypatch: pytest.MonkeyPatch) -> None:
    options = ["--pairs", "20", "--seed", "5", "--device", "1", "--format", "json"]
    done, designs = asked(monkeypatch, "aa", *options, "--runs", "2", "--out", "x.jsonl")
    assert designs == [(5, 1, "x-0.jsonl", "monitor"), (6, 1, "x-1.jsonl", "monitor")]
    assert done.exit_code == 0
    assert {row["verdicts"] for row in json.loads(done.stdout)["rows"]} == {40}
    _, designs = asked(monkeypatch, "aa", *options, "--runs", "1", "--out", "x.jsonl")
    assert designs == [(5, 1, "x.jsonl", "monitor")]


def test_a_campaign_outside_its_band_fails_after_its_table(monkeypatch: pytest.MonkeyPatch) -> None:
    done, _ = asked(monkeypatch, "aa", "--pairs", "20", "--runs", "1", lie_percent=1.0)
    assert isinstance(done.exception, BenchError)
    assert done.exception.exit_status == 1
    assert "lie outside their 99.9 % band" in str(done.exception)
    assert "cycles" in done.stdout


def test_a_campaign_of_no_run_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    done, designs = asked(monkeypatch, "aa", "--runs", "0")
    assert (str(done.exception), designs) == ("--runs: 0 is below 1", [])
