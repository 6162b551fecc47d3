"""The table of a record: levels, overlap and error computed from cells, with nothing measured invented."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from micro.bench.read_path.results import COLUMNS, heading_lines, measured_rows
from micro.bench.read_path.run import newest_record
from micro.model.arm_names import MMA_ARM, Work, arm_name
from stats.analysis.levels import level_of
from stats.analysis.prepare import require_accepted
from stats.base.errors import BenchError
from stats.base.tables import FORMATS, render
from stats.record.schema import ArmInfo, CellRow, Device, Record
from stats.record.writer import RecordWriter
from tests.makers.rows import header

GPU = Device(name="Test GPU", uuid="GPU-0", compute_capability="9.0", sm_count=2)


def record(levels: dict[str, float], processes: int = 4, blocks: int = 4) -> Record:
    """Cells at the given cycles per k-step; process p is higher by p/1000 so that intervals have a width."""
    static = {"load_instructions": 8, "wavefronts": 24, "bytes": 3072}
    arms = [
        ArmInfo(name=name, static=static | ({"predicted_cycles": 24.0} if name.endswith("load") else {}))
        for name in levels
    ]
    made = header(
        arms, tool="micro-bench", device=GPU, processes=processes, blocks=blocks, workload={"blocks_per_sm": 2}
    )
    found = Record(header=made)
    for process in range(processes):
        for block in range(blocks):
            for position, (name, level) in enumerate(levels.items()):
                per_kstep = level + process / 1000
                found.add(
                    CellRow(process, block, position, name, 1, 1e5, 2e5, 1980.0, values={"cycles_per_kstep": per_kstep})
                )
    return found


LOAD, BOTH = arm_name("A3", True, Work.LOAD), arm_name("A3", True, Work.LOAD_MMA)


def test_a_row_holds_levels_rate_overlap_and_error() -> None:
    (row,) = measured_rows(record({LOAD: 24.0, BOTH: 26.0, MMA_ARM: 23.0}))
    assert row["load_mean"] == pytest.approx(24.0015)
    assert row["load_low"] < row["load_mean"] < row["load_high"]
    assert row["bytes_per_clk"] == pytest.approx(3072 / 24.0015)
    assert row["error_percent"] == pytest.approx(100 * 0.0015 / 24)
    assert row["hidden_percent"] == pytest.approx(100 * (24.0015 + 23.0015 - 26.0015) / 23.0015)


def test_overlap_is_negative_when_together_cost_more_than_their_sum() -> None:
    (row,) = measured_rows(record({LOAD: 24.0, BOTH: 50.0, MMA_ARM: 23.0}))
    assert row["hidden_percent"] < 0


def test_what_was_not_measured_is_absent_not_zero() -> None:
    (row,) = measured_rows(record({LOAD: 24.0}))
    assert row["load_mma"] is None
    assert row["mma"] is None
    assert "hidden_percent" not in row
    for fmt in FORMATS:
        text = render(COLUMNS, [row], fmt)
        assert "nan" not in text.lower()


def test_one_process_is_said_to_be_one() -> None:
    lines = heading_lines(record({LOAD: 24.0}, processes=1))
    assert any("conditional on this process" in line for line in lines)
    assert any("Test GPU" in line for line in lines)


def test_a_level_counts_processes_not_cells() -> None:
    values = [[1.0, 1.0, 1.0, 1.0], [2.0, 2.0, 2.0, 2.0], [3.0, 3.0, 3.0, 3.0]]
    level = level_of(values)
    assert level.n == 3
    assert level.mean == 2.0
    assert level.half_width == pytest.approx(4.302652729911275 / math.sqrt(3))  # t(2, .975) * s / sqrt(3)
    assert level_of(values[:1] * 2).half_width == 0.0
    assert math.isnan(level_of([[1.0]]).half_width)
    assert level_of([[1.0]]).text() == "1.00"
    assert level_of([]).text() == "–"


def test_a_run_without_an_accepted_block_reports_nothing_but_the_reasons() -> None:
    found = record({LOAD: 24.0})
    found.cells = [replace(cell, other_processes=1) for cell in found.cells]
    with pytest.raises(BenchError, match=r"0 accepted of 16 blocks \(.*16\); nothing is reported"):
        require_accepted(found)
    require_accepted(record({LOAD: 24.0}))


def test_the_record_that_stands_in_is_the_newest_of_the_asked_residency(tmp_path: Path) -> None:
    """A newer record of another residency does not take the place."""
    template = record({"A1:load": 34.0})
    for day, resident in ((1, 2), (2, 2), (3, 1)):
        header = template.header.model_copy(
            update={"created_utc": f"2026-01-0{day}T00:00:00+00:00", "workload": {"blocks_per_sm": resident}}
        )
        with RecordWriter(tmp_path / f"day-{day}.jsonl", header):
            pass

    def found(blocks_per_sm: int) -> str:
        newest = newest_record([tmp_path / "empty", tmp_path], blocks_per_sm)
        assert newest is not None
        return newest.name

    assert (found(2), found(1), found(4)) == ("day-2", "day-3", "day-3")
    assert newest_record([tmp_path / "empty"], 2) is None


@pytest.mark.parametrize(("resident", "says"), [(1, ", 1 block per SM"), (2, ", 2 blocks per SM")])
def test_the_heading_counts_one_block_as_one(resident: int, says: str) -> None:
    shown = record({"A1:load": 34.0})
    header = shown.header.model_copy(update={"workload": {"blocks_per_sm": resident}})
    assert heading_lines(replace(shown, header=header))[0].endswith(says)
