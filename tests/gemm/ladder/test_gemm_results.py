"""Tables of a GEMM record: figures from cells, residency named, comparisons labelled where they are not controlled."""

from __future__ import annotations

import math

import pytest

from gemm.kernel.residency import pair_fault, residency_faults
from gemm.ladder.results import (
    ARM_COLUMNS,
    COMPARISON_COLUMNS,
    arm_rows,
    comparison_rows,
    heading_lines,
    note_lines,
    transposed_lines,
)
from stats.analysis.compare import analyse
from stats.base.tables import FORMATS, render
from stats.record.schema import ArmInfo, Record
from tests.makers.synthetic import make_record

FACTS = {"registers": 122, "spill_bytes": 0, "shared_bytes": 49152, "resident_blocks": 2, "b_transposed": False}
WORKLOAD = {"kernel": "gemm", "m": 4096, "n": 4096, "k": 4096, "dtype": "bf16"}
EFFECTS = {"A1": math.log(1.3), "A2L": math.log(1.02), "A3": 0.0, "A3.twin": 0.0, "cublas": math.log(0.5)}
FAMILY = [("A1", "A3"), ("A2L", "A3")]


def record(**changes: dict[str, object]) -> Record:
    """A1 30 % and A2L 2 % above A3, cuBLAS twice as fast; ``changes`` are facts by arm."""
    made = make_record(
        EFFECTS, within=0.001, between=0.0002, workload=WORKLOAD, comparisons=FAMILY, skips={"A9": "sm_80"}
    )
    static = {name: {**FACTS, **changes.get(name, {})} for name in ("A1", "A3")}
    static["A2L"] = {**FACTS, "b_transposed": True, **changes.get("A2L", {})}
    arms = [ArmInfo(name=arm.name, static=static.get(arm.name, {})) for arm in made.header.arms]
    made.header = made.header.model_copy(update={"arms": arms, "launches": 10})
    return made


def test_rows_hold_time_rate_cycles_and_the_ratio_to_cublas() -> None:
    rows = {row["arm"]: row for row in arm_rows(record())}
    a3 = rows["A3"]
    # 1e6 cycles a launch at 1,500 MHz; the level that a process shares scatters by 2 %.
    assert a3["ms_mean"] == pytest.approx(1e6 / 1500e6 * 1e3, rel=0.05)
    assert a3["ms_low"] < a3["ms_mean"] < a3["ms_high"]
    assert a3["tflops_mean"] == pytest.approx(2 * 4096**3 / a3["ms_mean"] / 1e9)
    assert a3["sm_cycles"] == pytest.approx(a3["ms_mean"] * 1.5e6, rel=1e-6)
    assert a3["percent_of_cublas"] == pytest.approx(50, rel=0.01)
    assert (a3["registers"], a3["spill_bytes"], a3["shared_kib"], a3["resident_blocks"]) == (122, 0, 48, 2)
    assert rows["cublas"]["percent_of_cublas"] is None
    assert rows["A1"]["percent_of_cublas"] == pytest.approx(50 / 1.3, rel=0.01)


def test_a_skipped_arm_keeps_its_row_and_says_why() -> None:
    rows = {row["arm"]: row for row in arm_rows(record())}
    assert rows["A9"]["ms"] == "skipped: sm_80"
    for fmt in FORMATS:
        assert "skipped: sm_80" in render(ARM_COLUMNS, arm_rows(record()), fmt) or fmt == "table"


def test_comparisons_carry_effect_verdict_and_control() -> None:
    made = record()
    rows = comparison_rows(made, analyse(made))
    assert [(row["a"], row["b"], row["metric"]) for row in rows] == [
        (*pair, metric) for metric in ("time", "cycles") for pair in FAMILY
    ]
    assert rows[0]["effect_percent"] == pytest.approx(30, abs=0.2)
    assert rows[1]["effect_percent"] == pytest.approx(2, abs=0.2)
    assert all("DIFFERENT" in row["verdicts"] and row["controlled"] == "yes" for row in rows)
    for fmt in FORMATS:
        assert "A2L" in render(COMPARISON_COLUMNS, rows, fmt)


def test_unequal_residency_is_named_and_labels_the_comparison() -> None:
    made = record(A1={"resident_blocks": 1, "registers": 142})
    (row, *_) = comparison_rows(made, analyse(made))
    assert row["controlled"] == "no: A1 runs 1 blocks per SM, A3 2"
    (warning,) = [line for line in note_lines(made, None) if line.startswith("WARNING")]
    assert warning.startswith("WARNING A1: 1 blocks per SM (142 registers a thread), the others 2")


def test_a_spill_is_named() -> None:
    static = {"A1": {**FACTS, "spill_bytes": 24}, "A3": FACTS, "cublas": {}}
    assert residency_faults(static) == ["A1: spills 24 bytes a thread to local memory"]
    assert pair_fault(static, "A1", "A3") == "A1 spills 24 bytes a thread"
    assert pair_fault(static, "A3", "cublas") is None
    assert residency_faults({"A1": FACTS, "A3": FACTS}) == []
    assert residency_faults({"cublas": {}}) == []


def test_every_output_says_that_b_was_transposed_on_the_host_where_it_was() -> None:
    made = record()
    caveat = "A2L reads a B that was transposed on the host, outside the timing: whoever has no such B pays for that"
    assert caveat in note_lines(made, analyse(made))
    assert "transposed" not in " ".join(note_lines(record(A2L={"b_transposed": False}), None))


def test_the_caveat_names_each_variant_of_the_record_once() -> None:
    yes, no = {"b_transposed": True}, {"b_transposed": False}
    (line,) = transposed_lines({"A1": no, "A2": yes, "A2/stages=2": yes, "A2L": yes, "A4": yes, "cublas": {}})
    assert line.startswith("A2, A2L and A4 read a B that was transposed on the host")
    assert transposed_lines({"A2": yes, "A2L": yes})[0].startswith("A2 and A2L read a B")
    assert transposed_lines({"A1": no, "cublas": {}}) == []


def test_the_heading_says_what_was_measured_where_and_how() -> None:
    text = "\n".join(heading_lines(record()))
    for part in (
        "4096x4096x4096 bf16",
        "NVIDIA H200, 132 SMs",
        "monitored",
        "1500",
        "8 fresh processes",
        "10 launches",
    ):
        assert part in text
