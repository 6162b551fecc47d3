"""The spread of one pair over recorded runs: rows, mean, deviation, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from stats.analysis.repeats import repeat_rows
from stats.base.errors import UserError
from stats.record.reader import read_record

RESULTS = Path(__file__).resolve().parents[3] / "results"
NAMES = ("ladder-a-h200", "swizzle-h200", "stages-h200")


def test_each_run_has_its_row_and_the_last_says_how_far_they_lie_apart() -> None:
    rows = repeat_rows([read_record(RESULTS / f"{n}.jsonl") for n in NAMES], "A1", "A3")
    cycles = [row for row in rows if row["metric"] == "cycles"]
    assert [row["record"] for row in cycles] == [*NAMES, "all 3"]
    effects = [row["effect_percent"] for row in cycles[:3]]
    mean = sum(effects) / 3
    assert cycles[3]["effect_percent"] == pytest.approx(mean)
    assert cycles[3]["spread_percent"] == pytest.approx((sum((e - mean) ** 2 for e in effects) / 2) ** 0.5)
    assert all(row["low_percent"] < row["effect_percent"] < row["high_percent"] for row in cycles[:3])


def test_swapping_the_arms_flips_every_sign_of_the_logarithm() -> None:
    records = [read_record(RESULTS / f"{n}.jsonl") for n in NAMES]
    there, back = repeat_rows(records, "A1", "A3"), repeat_rows(records, "A3", "A1")
    for one, other in zip(there[:3], back[:3], strict=True):
        assert (1 + one["effect_percent"] / 100) * (1 + other["effect_percent"] / 100) == pytest.approx(1)


def test_one_run_has_no_spread() -> None:
    with pytest.raises(UserError, match="A1 and A3: 1 of the records hold both arms; at least 2 are needed"):
        repeat_rows(
            [read_record(RESULTS / "ladder-a-h200.jsonl"), read_record(RESULTS / "micro-h200.jsonl")], "A1", "A3"
        )
