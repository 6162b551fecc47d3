"""Does a record survive: torn, cut, older? Is it read back as it was written?"""

from __future__ import annotations

import gc
import json
import math
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import pytest

from stats.base.errors import UserError
from stats.record.reader import newest_first, read_record
from stats.record.schema import CellRow, Record, SkipRow
from stats.record.writer import RecordWriter
from tests.makers.rows import ROWS, cell, header, written


def same(a: Any, b: Any) -> bool:
    """Equality in which nan equals nan."""
    return repr(a) == repr(b)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    written(path, *ROWS)
    record = read_record(path)
    assert record.header == header()
    assert same(record.cells, [ROWS[1], ROWS[2]])
    assert record.skips == [ROWS[3]]
    assert record.events == [ROWS[0], ROWS[4]]
    assert record.torn_line is None
    assert record.arm_names == ["A", "B"]
    assert record.name == "a"
    assert Record(header()).name == "run"


def test_a_cell_of_an_older_writer_gets_defaults(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    written(path)
    old = {"process": 0, "block": 1, "position": 0, "arm": "A", "launches": 5, "time_ns": 7, "sm_cycles": None}
    path.write_bytes(path.read_bytes() + json.dumps({"kind": "cell", **old}).encode() + b"\n")
    expected = CellRow(0, 1, 0, "A", 5, 7.0, math.nan)
    assert same(read_record(path).cells, [expected])


def test_cells_as_read_are_as_good_as_made(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    made = cell(temperature_c=1.0, power_w=1.0, nvml_clock_mhz=1.0, clock_mhz=1.0, started_s=1.0)
    written(path, made)
    read = read_record(path).cells[0]
    assert read == made
    assert replace(read, block=3) == replace(made, block=3)
    with pytest.raises(FrozenInstanceError):
        read.block = 3  # type: ignore[misc]


def test_every_line_is_valid_json_without_nan(tmp_path: Path) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    lines = written(tmp_path / "a.jsonl", *ROWS, replace(cell(), sm_cycles=math.inf)).splitlines()
    assert len(lines) == 7
    for line in lines:
        json.loads(line, parse_constant=refuse)


def test_rows_are_in_the_file_before_append_returns(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    writer = RecordWriter(path, header())
    for count in range(3):
        assert len(read_record(path).cells) == count
        writer.append(cell(block=count))
    writer.close()
    writer.close()


def test_without_a_path_rows_stay_in_memory() -> None:
    with RecordWriter(None, header()) as writer:
        for row in ROWS:
            writer.append(row)
    assert len(writer.record.cells) == 2


def test_every_cut_of_a_record_is_read_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    whole = written(path, *ROWS)
    header_end = whole.index(b"\n") + 1
    for length in [*range(0, header_end, 25), *range(header_end - 1, len(whole))]:
        path.write_bytes(whole[:length])
        if length < header_end:
            with pytest.raises(UserError, match=r"empty|cut off"):
                read_record(path)
            continue
        record = read_record(path)
        complete_rows = whole[:length].count(b"\n") - 1
        rows = len(record.cells) + len(record.skips) + len(record.events)
        # A row that lacks just its end of line is a row.
        lacks_end_only = whole[length : length + 1] == b"\n"
        assert rows == complete_rows + lacks_end_only
        torn = not lacks_end_only and not whole[:length].endswith(b"\n")
        assert record.torn_line == (complete_rows + 2 if torn else None)


def test_resume_after_a_cut_anywhere_gives_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    whole = written(path, *ROWS)
    ends = [at + 1 for at, byte in enumerate(whole) if byte == ord("\n")]
    # Around each end of line, and in the middle of lines.
    for length in sorted({end + near for end in ends for near in (-2, -1, 0, 1, 40)}):
        if not ends[0] <= length <= len(whole):
            continue
        path.write_bytes(whole[:length])
        before = read_record(path)
        with RecordWriter(path, header(seed=9), resume=True) as writer:
            writer.append(cell(block=1))
        after = read_record(path)
        assert after.header == header()  # the first header stands
        assert after.torn_line is None
        assert same(after.cells, [*before.cells, cell(block=1)])
        assert same(writer.record.cells, after.cells)


def test_what_was_not_measured_is_null_and_a_torn_line_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    row = json.loads(written(path, cell()).splitlines()[1])
    for field in ("time_ns", "sm_cycles", "clock_mhz"):
        path.write_bytes(path.read_bytes() + json.dumps({**row, field: None}).encode() + b"\n")
    path.write_bytes(path.read_bytes() + json.dumps({**row, "time_ns": 0}).encode())
    read = read_record(path)
    assert (len(read.cells), read.torn_line) == (4, 6)
    assert [math.isnan(one.time_ns) for one in read.cells] == [False, True, False, False]


def test_every_record_of_the_repository_is_read() -> None:
    paths = sorted((Path(__file__).resolve().parents[3] / "results").glob("*.jsonl"))
    for path in paths:
        assert read_record(path).cells, path


def test_white_space_around_a_row_is_no_damage_and_a_second_row_on_its_line_is(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = written(path, *ROWS).splitlines()
    path.write_bytes(b"\n".join([lines[0], *(b" \t" + line + b" \r" for line in lines[1:])]) + b"\n")
    assert [len(part) for part in (read_record(path).cells, read_record(path).skips)] == [
        sum(isinstance(row, kind) for row in ROWS) for kind in (CellRow, SkipRow)
    ]
    path.write_bytes(b"\n".join([lines[0], lines[1] + lines[1], *lines[2:]]) + b"\n")
    with pytest.raises(
        UserError, match=r":2: not a row of a record \(not JSON at column [0-9]+: extra data\).*restore it"
    ):
        read_record(path)


def test_reading_leaves_garbage_collection_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    whole = written(path, *ROWS)
    read_record(path)
    assert gc.isenabled()
    path.write_bytes(whole + b"{}\n")
    with pytest.raises(UserError):
        read_record(path)
    assert gc.isenabled()
    path.write_bytes(whole)
    gc.disable()
    try:
        read_record(path)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_newest_first_passes_over_what_is_no_record(tmp_path: Path) -> None:
    for name, when, tool in (("a", "2025-01-02", "t"), ("b", "2025-01-03", "t"), ("c", "2025-01-04", "other")):
        RecordWriter(tmp_path / f"{name}.jsonl", header(created_utc=when, tool=tool)).close()
    (tmp_path / "d.jsonl").write_bytes(b"\xff\n")
    (tmp_path / "e.jsonl").write_text("{}\n")
    (tmp_path / "f.jsonl").mkdir()
    assert [path.stem for path in newest_first(tmp_path, "t")] == ["b", "a"]
