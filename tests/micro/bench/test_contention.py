"""Contention without a GPU: what the arms are, what threads must hand back, and figures that are those put in."""

from __future__ import annotations

import csv
import io
import json
import math

import numpy as np
import pytest

from micro.bench.contention.design import ARMS, KINDS, REFERENCE, WARPS, Arm, arm_called, loops_for
from micro.bench.contention.results import contention_rows, costs_beside_mma, prediction_rows
from micro.bench.contention.sinks import Expected, Inputs, check_sinks, expected_sinks
from micro.cli.contention import measured_text, predicted_text
from stats.base.errors import BenchError, UserError
from stats.record.schema import Record
from stats.report.tools import tool_report
from tests.makers.contention_record import COST, cycles_of, make_record

INPUTS = Inputs.random(16384, 131072, seed=3)


def arm(name: str) -> Arm:
    found = arm_called(name)
    assert found is not None, name
    return found


def row(name: str) -> dict:
    return next(found for found in contention_rows(make_record()) if found["arm"] == name)


# Arms


def test_names_say_what_is_in_a_pass_and_are_each_given_once() -> None:
    assert len({found.name for found in ARMS}) == len(ARMS) == 44
    both = arm("ld.shared.b32/n24+cp.async/c2+mma")
    assert (both.kind.name, both.instructions, both.copies, both.mmas) == ("ld.shared.b32", 24, 2, 16)
    assert arm("ldmatrix.x4/n12").mmas == 0
    assert arm_called(f"{REFERENCE}.twin") is None


@pytest.mark.parametrize(
    ("name", "base", "added"),
    [
        ("mma", None, 0),
        ("prmt/n48", None, 48),
        ("ldmatrix.x4/n2+mma", "mma", 2),
        ("cp.async/c1+mma", "mma", 1),
        ("cp.async/c4+mma", "cp.async/c2+mma", 2),
        ("ld.shared.b32/n24+cp.async/c2+mma", "ld.shared.b32/n24+cp.async/c1+mma", 1),
        ("ldmatrix.x4/n6+cp.async/c0", "ldmatrix.x4/n6", 1),
        ("ldmatrix.x4/n6+cp.async/c1", "ldmatrix.x4/n6+cp.async/c0", 1),
    ],
)
def test_what_a_part_costs_is_told_by_the_arm_without_it(name: str, base: str | None, added: int) -> None:
    found = arm(name)
    assert found.added == added
    assert (found.base.name if found.base else None) == base
    assert base is None or arm_called(base) is not None


def test_cells_are_about_as_long_as_asked() -> None:
    for found in ARMS:
        assert 4 <= loops_for(found, 20_000) < loops_for(found, 2_000_000)


# What threads hand back


def sinks(expected: Expected, blocks: int = 2) -> np.ndarray:
    one = np.stack([expected.total.astype(np.float32).view(np.uint32), expected.left, expected.brought])
    return np.repeat(one[:, None], blocks, axis=1)


@pytest.mark.parametrize("name", [found.name for found in ARMS])
def test_what_is_right_passes_and_a_trip_too_few_does_not(name: str) -> None:
    found = arm(name)
    expected, fewer = (expected_sinks(found, INPUTS, loops) for loops in (10, 9))
    check_sinks(name, sinks(expected), expected)
    if found.with_mma:
        with pytest.raises(BenchError, match=r": the sum of the accumulators is not what the mma of every pass"):
            check_sinks(name, sinks(fewer), expected)
    if found.copies:
        wrong = np.concatenate([sinks(expected)[:2], sinks(fewer)[2:]])
        with pytest.raises(BenchError, match=r": what cp\.async brought is not what its source holds"):
            check_sinks(name, wrong, expected)


@pytest.mark.parametrize(
    ("sink", "says"),
    [
        (0, "x: the sum of the accumulators"),
        (1, "x: what the instructions left behind is not what its source holds: block 1, warp 7, lane 9 (1 threads)"),
        (2, "x: what cp.async brought is not what its source holds: block 1, warp 7, lane 9 (1 threads)"),
    ],
)
def test_one_wrong_word_of_one_thread_is_found(sink: int, says: str) -> None:
    expected = expected_sinks(arm("ld.shared.b32/n24+cp.async/c2+mma"), INPUTS, 10)
    wrong = sinks(expected)
    wrong[sink, 1, 7, 9] ^= 0x00800000
    with pytest.raises(BenchError) as stop:
        check_sinks("x", wrong, expected)
    assert str(stop.value).startswith(says)


def test_an_accumulator_that_is_no_number_is_found() -> None:
    expected = expected_sinks(arm("mma"), INPUTS, 10)
    wrong = sinks(expected)
    wrong[0, 0, 0, 0] = np.float32(math.nan).view(np.uint32)
    with pytest.raises(BenchError, match="accumulators"):
        check_sinks("x", wrong, expected)


def test_products_are_those_of_the_fragments_element_by_element() -> None:
    def element(words: list[int], at: int) -> float:
        return float(np.array([words[at // 2] >> 16 * (at % 2) << 16 & 0xFFFFFFFF], np.uint32).view(np.float32)[0])

    warp, lane = 5, 14
    image = [int(word) for word in INPUTS.image]
    group, pair = divmod(lane, 4)

    def a(index: int, r: int, k: int) -> float:
        register = r // 8 + 2 * (k // 8)
        return element(image, 2 * (128 * warp + 128 * index + 32 * register + 4 * (r % 8) + k % 8 // 2) + k % 2)

    def b(index: int, k: int, n: int, *, trans: bool) -> float:
        line = 2 * (128 * warp + 128 * index + 32 * (k // 8))
        return element(image, line + (8 * (k % 8) + n if trans else 8 * n + k % 8))

    for name, a_sets, b_sets in (
        ("mma", [m % 2 for m in range(16)], [m % 2 for m in range(16)]),
        ("ldmatrix.x4/n8+mma", [m // 2 for m in range(16)], [m % 2 for m in range(16)]),
        ("ldmatrix.x2.trans/n4+mma", [m % 2 for m in range(16)], [m // 4 for m in range(16)]),
    ):
        total = 120 + 4 * sum(
            a(i, group + 8 * (register // 2), k) * b(j, k, 2 * pair + register % 2, trans="trans" in name)
            for i, j in zip(a_sets, b_sets, strict=True)
            for register in range(4)
            for k in range(16)
        )
        assert expected_sinks(arm(name), INPUTS, 1).total[warp, lane] == pytest.approx(total), name


def test_inputs_are_finite_and_never_zero() -> None:
    values = INPUTS.image.view(np.uint16).astype(np.uint32) << 16
    assert np.isfinite(values.view(np.float32)).all()
    assert 0.9 < values.view(np.float32).std() < 1.1
    assert INPUTS.source.shape == (WARPS, 32768)
    assert INPUTS.source.all()


# Figures


def test_costs_are_those_put_in() -> None:
    assert row("mma")["cost"] is None
    assert row("ldmatrix.x4/n8+mma")["cost"] == "1.20 ±0.01"
    assert row("ldmatrix.x4/n8+mma")["base"] == "mma"
    copies = row("ld.shared.b32/n24+cp.async/c2+mma")
    assert copies["base"] == "ld.shared.b32/n24+cp.async/c1+mma"
    assert copies["cost"].startswith("4.00")
    first = row("ld.shared.b32/n24+cp.async/c1+mma")
    assert first["base"] == "ld.shared.b32/n24+mma"
    assert first["cost"].startswith("12.00")  # 4, and 2 cycles of the SM that come with the first
    assert row("ld.shared.b32/n24+cp.async/c0")["cost"].startswith("0.00")


def test_floor_is_the_port_or_the_mma_as_measured() -> None:
    assert row("ld.shared.b32/n8+mma")["floor"] == pytest.approx(24.25)  # two blocks, half a cycle apart
    assert row("ld.shared.b32/n48+mma")["floor"] == 48
    assert row("ldmatrix.x4/n6")["floor"] == 24
    assert math.isnan(row("prmt/n48")["floor"])


def test_without_mma_alone_no_arm_with_mma_has_a_floor() -> None:
    rows = {found["arm"]: found for found in contention_rows(make_record(skipped=("mma",)))}
    for name in ("ld.shared.b32/n8+mma", "ld.shared.b32/n48+mma", "cp.async/c2+mma"):
        assert math.isnan(rows[name]["floor"])
        assert math.isnan(rows[name]["over_percent"])
    assert rows["ldmatrix.x4/n6"]["floor"] == 24


def test_delays_are_at_the_smallest_number_and_of_the_second_copy() -> None:
    def steeper_with_more(found: Arm) -> float:
        many = found.instructions > {"ld.shared.b32": 2, "prmt": 8}.get(found.kind.name, 99)
        return cycles_of(found) + (5 if many else 0)

    costs = costs_beside_mma(make_record(steeper_with_more))
    assert set(costs) == {kind.name for kind in KINDS[1:]} | {"cp.async"}
    for kind, found in costs.items():
        assert found["cost_cycles"] == pytest.approx(COST[kind], abs=1e-3), kind
        assert found["low"] <= found["cost_cycles"] <= found["high"]
        assert found["high"] - found["low"] < 0.2


def test_a_cost_beside_mma_is_a_row_of_the_table() -> None:
    rows = {row["arm"]: row for row in contention_rows(make_record())}
    for kind, found in costs_beside_mma(make_record()).items():
        row = rows[found["arm"]]
        assert (row["base"], row["cost_cycles"]) == (found["base"], found["cost_cycles"]), kind


def test_the_interval_of_a_delay_is_over_processes_and_absent_arms_are_left_out() -> None:
    costs = costs_beside_mma(make_record(skipped=("cp.async/c1+mma", "prmt/n8+mma"), processes=1))
    assert "cp.async" not in costs
    assert costs["prmt"]["cost_cycles"] == pytest.approx(COST["prmt"], abs=1e-3)  # at 16, the fewest there are
    costs = costs_beside_mma(make_record(skipped=("mma",)))
    assert set(costs) == {"cp.async"}


def test_table_holds_every_arm_in_order_and_says_what_was_not_measured() -> None:
    text = measured_text(make_record(), "table")
    assert "measured on NVIDIA H200 (sm_90, 132 SMs), 1 block per SM" in text
    assert "M (mma only)" not in text
    assert "cp.async/c4+mma: not measured, needs more shared memory" in text
    rows = contention_rows(make_record())
    assert [found["arm"] for found in rows] == [found.name for found in ARMS if found.name != "cp.async/c4+mma"]


GOLDEN = """\
| arm | instr. | mma | copies | cycles/pass | floor | over % | cost | beyond | mean | low | high |
|---|---:|---:|---:|---:|---:|---:|---:|---|---:|---:|---:|
| mma | 0 | 16 | – | 24.250 ±0.016 | 24.25 | +0.0 | – | – | 24.250 | 24.235 | 24.265 |
| ld.shared.b32/n2+mma | 2 | 16 | – | 24.750 ±0.016 | 24.25 | +2.1 | 1.00 ±0.01 | mma | 24.750 | 24.734 | 24.766 |
"""


def test_golden_table() -> None:
    assert GOLDEN in measured_text(make_record(), "md")


def test_formats_hold_the_same_table() -> None:
    rows = contention_rows(make_record())
    found = json.loads(measured_text(make_record(), "json"))
    assert found["measured"] is True
    assert [line["arm"] for line in found["rows"]] == [line["arm"] for line in rows]
    assert found["costs_beside_mma"]["st.shared.b32"]["cost_cycles"] == pytest.approx(2.9, abs=1e-3)
    table = list(csv.DictReader(io.StringIO(measured_text(make_record(), "csv"))))
    assert [line["cost"] or None for line in table] == [line["cost"] for line in rows]


def test_a_record_of_another_tool_and_one_without_a_whole_block_are_refused() -> None:
    other = make_record()
    other.header = other.header.model_copy(update={"tool": "gemm-bench"})
    with pytest.raises(UserError, match=r"a record of gemm-bench, not of micro-bench contention"):
        measured_text(other, "table")
    with pytest.raises(BenchError, match="0 accepted"):
        measured_text(Record(header=make_record().header), "table")


def test_prediction_is_labelled_and_gives_the_ceilings() -> None:
    assert predicted_text("table").startswith("PREDICTED, NOT MEASURED")
    assert json.loads(predicted_text("json"))["measured"] is False
    rows = {found["arm"]: found for found in prediction_rows()}
    assert [rows["ldmatrix.x4/n8+mma"][key] for key in ("port", "tensor_80", "tensor_90", "floor_90")] == [
        32,
        32,
        16,
        32,
    ]
    assert rows["ld.shared.b32/n48"]["floor_80"] == 48


def test_reports_know_the_table() -> None:
    report = tool_report("micro-bench contention")
    assert report is not None
    assert [found["arm"] for found in report.tables[report.main](make_record()).rows][:1] == ["mma"]
