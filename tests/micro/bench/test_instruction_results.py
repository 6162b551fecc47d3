"""From cells to tables, words and pictures: figures are those that were put in, and a wrong one is called wrong."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from micro.bench.instructions.design import Arm, InstructionsConfig, arms_of
from micro.bench.instructions.figure import draw_heat_maps, grid_of
from micro.bench.instructions.published import load_published, published_rows
from micro.bench.instructions.results import fit_rows, fits_of, points_of, table_rows
from micro.cli.instructions import measured_text, predicted_text
from micro.model.patterns import INSTRUCTIONS
from stats.base.errors import UserError
from stats.record.schema import Device
from tests.makers.instruction_record import LATENCY, SLOPE, cycles_of, make_record
from tests.makers.rows import H200

CONFIG = InstructionsConfig()


def row_of(rows: list[dict], instruction: str, pattern: str) -> dict:
    return next(row for row in rows if (row["instruction"], row["pattern"]) == (instruction, pattern))


def test_table_gives_back_what_was_put_in() -> None:
    rows = table_rows(points_of(make_record(CONFIG)))
    conflict = row_of(rows, "ld.shared.b32", "way8")
    assert conflict["latency"] == "43.00 ±0.03"  # 29 + 2 * 7, two processes 1e-4 apart: t(1) = 12.7
    assert conflict["floor"] == 8.0
    assert conflict["bytes_per_clk"] == pytest.approx(16.0)
    assert conflict["error_percent"] == pytest.approx(0, abs=0.01)
    mma = row_of(rows, "mma.bf16", "registers")
    assert mma["fma_per_clk"] == pytest.approx(1024)
    assert mma["wavefronts"] is None
    assert row_of(rows, "stmatrix.x4", "way1")["latency"] is None
    assert not any(row["instruction"] == "stmatrix.x2" for row in rows)  # no cells: no row


def test_no_rate_against_the_limit_where_lanes_share_words() -> None:
    rows = table_rows(points_of(make_record(CONFIG)))
    for instruction in ("ld.shared.b16", "ld.shared.b32", "ld.shared.b128", "ldmatrix.x4"):
        shared = row_of(rows, instruction, "broadcast")
        assert "bytes_per_clk" not in shared
        assert "percent_of_limit" not in shared
        assert shared["error_percent"] == pytest.approx(0, abs=0.01)
        assert row_of(rows, instruction, "way1")["bytes_per_clk"] is not None
    assert all(row.get("percent_of_limit", 0) <= 100.1 for row in rows)
    predicted = json.loads(predicted_text(CONFIG, "json"))["rows"]
    assert row_of(predicted, "ld.shared.b128", "broadcast")["bytes_per_clk"] is None


def test_merged_words_of_wide_loads_are_named_and_stay_out_of_the_fit() -> None:
    def merging(arm: Arm) -> float:
        wide = arm.instruction.name in ("ld.shared.b64", "ld.shared.b128", "ldmatrix.x4")
        return cycles_of(arm) / (2 if wide and arm.pattern.name == "broadcast" and arm.warps > 1 else 1)

    points = points_of(make_record(CONFIG, merging))
    rows = {(row["instruction"], row["quantity"]): row for row in fit_rows(fits_of(points))}
    for instruction in ("ld.shared.b64", "ld.shared.b128"):
        row = rows[instruction, "throughput"]
        assert "merged words: not in the model" in row["unseen_worst_pattern"]
        assert row["unseen_worst_percent"] == pytest.approx(100)
        assert row["cycles_per_wavefront"] == pytest.approx(1)
    assert (
        rows["ldmatrix.x4", "throughput"]["unseen_worst_pattern"] == "broadcast"
    )  # served tile by tile, whatever the words


def test_twin_is_no_row_of_the_table() -> None:
    assert not any(point.arm.endswith(".twin") for point in points_of(make_record(CONFIG)))


def test_fits_recover_the_made_up_machine_and_predict_the_unseen() -> None:
    points = points_of(make_record(CONFIG))
    rows = table_rows(points)
    fits = {(fit.instruction, fit.quantity): fit for fit in fits_of(points)}
    assert len(fits) == 10 + 12  # latency of the loads, throughput of loads and of the stores that left cells
    for (instruction, quantity), fit in fits.items():
        assert fit.line.warnings == (), instruction
        expected = (LATENCY, SLOPE) if quantity == "latency" else (fit.line.least_wavefronts, 1.0)
        least = fit.line.least_wavefronts
        assert row_of(rows, instruction, "way1")["wavefronts"] == least
        assert (fit.line.base_cycles, fit.line.cycles_per_wavefront) == pytest.approx(expected, rel=1e-6)
        if not instruction.startswith("stmatrix"):
            assert fit.unseen.patterns == CONFIG.random_patterns + 1
            assert fit.unseen.worst_error_percent == pytest.approx(0, abs=1e-6)


def test_a_machine_that_breaks_the_rule_is_flagged_in_the_output() -> None:
    def quadratic(arm: Arm) -> float:
        return cycles_of(arm) ** 2 / 29 if arm.instruction.name == "ldmatrix.x4" else cycles_of(arm)

    text = measured_text(make_record(CONFIG, quadratic), "table")
    assert "ldmatrix.x4 latency: not a line" in text
    assert "ldmatrix.x2 latency: not a line" not in text

    def broken_unseen(arm: Arm) -> float:
        return cycles_of(arm) * (1.2 if arm.pattern.name == "random1" else 1.0)

    fits = fits_of(points_of(make_record(CONFIG, broken_unseen)))
    assert all(f.unseen.worst_pattern == "random1" for f in fits if f.unseen.patterns)
    assert all(f.unseen.worst_error_percent == pytest.approx(-100 / 6) for f in fits if f.unseen.patterns)


def test_formats_hold_the_same_table() -> None:
    record = make_record(CONFIG)
    rows = list(csv.DictReader(io.StringIO(measured_text(record, "csv"))))
    data = json.loads(measured_text(record, "json"))
    assert data["measured"] is True
    assert [row["instruction"] for row in rows] == [row["instruction"] for row in data["rows"]]
    assert len(data["grid"]) == len(points_of(record))
    assert {fit["instruction"] for fit in data["fits"]} >= {"ldmatrix.x4.trans", "stmatrix.x1"}
    markdown = measured_text(record, "md")
    assert "| ld.shared.b32 | way1 | 1 | 29.00" in markdown
    assert "NVIDIA H200" in markdown
    assert "nan" not in markdown
    assert f"{len(record.cells)} cells: 0.2 s inside timed launches, 60 s from first to last" in markdown


def test_prediction_says_that_it_is_one() -> None:
    text = predicted_text(CONFIG, "table")
    assert text.startswith("PREDICTED, NOT MEASURED")
    data = json.loads(predicted_text(CONFIG, "json"))
    assert data["measured"] is False
    assert row_of(data["rows"], "ldmatrix.x4", "way1")["floor"] == 4.0
    assert row_of(data["rows"], "ldmatrix.x4", "way1")["bytes_per_clk"] == 128.0


def test_published_figures_name_their_source_and_are_judged_in_words() -> None:
    points = points_of(make_record(CONFIG))
    for figure in load_published():
        assert figure["source"]
        assert figure["kind"] in ("first_hand", "transcription", "derived")
        assert figure["instruction"] in INSTRUCTIONS
    rows = published_rows(points, H200)
    by_value = {(row["gpu"], row["value"]): row for row in rows}
    assert by_value["H100 SXM", 29.015]["verdict"] == "reproduced within 3 %"
    assert by_value["A100", 23.0]["verdict"].startswith("another chip")
    assert by_value["B200", 6.45]["ours"] is None
    tflops = by_value["H800", 494.4]
    assert tflops["ours"] == pytest.approx(2 * 1024 * 132 * 1980e6 / 1e12, rel=1e-3)
    assert "not known here" in tflops["verdict"]

    def slow(arm: Arm) -> float:
        return 1.1 * cycles_of(arm)

    worse = published_rows(points_of(make_record(CONFIG, slow)), H200)
    assert next(row for row in worse if row["value"] == 29.015)["verdict"].startswith("differs; likely the method")
    unknown = Device(name="Other GPU", uuid="x", compute_capability="9.0", sm_count=1)
    assert all("reproduced" not in row["verdict"] for row in published_rows(points, unknown))


def test_heat_map_is_drawn_from_the_grid_on_one_scale(tmp_path: Path) -> None:
    points = points_of(make_record(CONFIG))
    grid = grid_of(points, "ld.shared.b32")
    assert len(grid) == 24
    assert grid[32, 4] == pytest.approx(100, rel=1e-3)
    assert grid[1, 1] == pytest.approx(100 / 29, rel=1e-3)
    assert max(grid_of(points, "mma.f16").values()) == pytest.approx(100)
    draw_heat_maps(points, tmp_path / "map.png", "made up")
    assert (tmp_path / "map.png").stat().st_size > 20_000
    with pytest.raises(UserError, match="no grid"):
        draw_heat_maps([p for p in points if p.at == (1, 1)], tmp_path / "none.png", "none")
    with pytest.raises(UserError, match="ends in"):
        draw_heat_maps(points, tmp_path / "map.bmp", "made up")


def test_every_arm_is_there_once_and_carries_its_addresses() -> None:
    arms = arms_of(CONFIG)
    assert len({arm.name for arm in arms}) == len(arms)
    for name, instruction in INSTRUCTIONS.items():
        grid = {
            (a.warps, a.in_flight)
            for a in arms
            if a.instruction.name == name and a.pattern.name in ("way1", "registers")
        }
        assert grid == {(w, i) for w in (1, 2, 4, 8, 16, 32) for i in instruction.in_flight}
    facts = next(arm for arm in arms if arm.name == "ld.shared.b32/way2/w32.i4").static()
    assert facts["wavefronts"] == 2
    assert facts["throughput"]
    assert not facts["latency"]
    assert facts["offsets_bytes"][16] == 128
