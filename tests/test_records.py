"""Does a record survive: torn, cut, foreign, newer, damaged? Is it read back as it was written?"""

from __future__ import annotations

import gc
import json
import math
import re
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import ROWS, cell, header, written

from stats.errors import UserError
from stats.records import (
    SCHEMA_VERSION,
    CellRow,
    ProcessRow,
    Record,
    RecordWriter,
    SkipRow,
    check_writable,
    newest_first,
    read_record,
)


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


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"", "not a row"),
        (b"null", "not an object"),
        (b"[1]", "not an object"),
        (b"{}", "unknown kind None"),
        (b'{"kind":"other"}', "unknown kind 'other'"),
        (b'{"kind":["cell"]}', "unknown kind"),
        (b'{"kind":"cell"}', "CellRow"),
        (b'{"kind":"skip","arm":"A"}', "reason"),
        (b'{"kind":"skip","arm":1,"reason":"x"}', "arm is 1, not text"),
        (b'{"kind":"process","process":0,"event":"exploded"}', "event is 'exploded', not one of complete, end"),
        (b'{"kind":"process","process":-2,"event":"end"}', "process is -2"),
        (b"\xff", "not UTF-8"),
        (b"[" * 100_000, "not a row"),
    ],
)
def test_a_bad_line_in_the_middle_is_named(tmp_path: Path, line: bytes, says: str) -> None:
    path = tmp_path / "a.jsonl"
    whole = written(path, *ROWS)
    path.write_bytes(whole + line + b"\n" + whole.splitlines()[2] + b"\n")
    with pytest.raises(UserError, match=says) as caught:
        read_record(path)
    assert str(caught.value).startswith(f"{path}:7: ")


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("process", -1, "process is -1"),
        ("block", 1.5, "block is 1.5"),
        ("launches", True, "launches is True"),
        ("attempt", "0", "attempt is '0'"),
        ("other_processes", -2, "other_processes is -2"),
        ("arm", None, "arm is None"),
        ("time_ns", "fast", "'fast' is not a number"),
        ("time_ns", 10**400, "beyond anything that was measured|too large"),
        ("power_w", -1e300, r"-1e\+300 is beyond anything that was measured"),
        ("block", 2**31, f"block is {2**31}, not an integer from 0 to {2**31 - 1}"),
        ("throttle_reasons", "sw_power_cap", "not a list of names"),
        ("throttle_reasons", [1], "not a list of names"),
        ("values", {"x": []}, "not a number"),
        ("values", [1], "not a row"),
        ("unheard_of", 1, "unheard_of"),
        ("launches", 0, r"a\.jsonl:3: .*launches is 0, not an integer from 1"),
        ("launches", -3, "launches is -3"),
        *(
            (field, value, rf"a\.jsonl:3: .*{field} is {re.escape(str(value))}, not a finite number above 0")
            for field in ("time_ns", "sm_cycles", "clock_mhz")
            for value in (0, 0.0, -1.5, 5e-324, math.inf, -math.inf, math.nan)
        ),
    ],
)
def test_a_cell_with_a_wrong_field_is_refused(tmp_path: Path, field: str, value: object, says: str) -> None:
    path = tmp_path / "a.jsonl"
    row = json.loads(written(path, cell()).splitlines()[1])
    path.write_bytes(path.read_bytes() + json.dumps({**row, field: value}).encode() + b"\n")
    with pytest.raises(UserError, match=says):
        read_record(path)


@pytest.mark.parametrize(
    ("first_line", "says"),
    [
        (b"", "not JSON"),
        (b"not json", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[1]", "no header"),
        (b'{"kind":"cell"}', "no header"),
        (b'{"kind":"header"}', "schema_version is None"),
        (b'{"kind":"header","schema_version":true}', "schema_version is True"),
        (b'{"kind":"header","schema_version":"1"}', "schema_version is '1'"),
        (b'{"kind":"header","schema_version":0}', r"a\.jsonl:1: schema_version is 0, not 1 or above"),
        (b'{"kind":"header","schema_version":-1}', "schema_version is -1"),
        (b'{"kind":"header","schema_version":1}', "header field tool: Field required"),
        (b'{"kind":"header","schema_version":999}', f"written with record schema 999, .* reads up to {SCHEMA_VERSION}"),
    ],
)
def test_a_record_without_its_header_is_refused(tmp_path: Path, first_line: bytes, says: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(first_line + b"\n")
    with pytest.raises(UserError, match=says):
        read_record(path)


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
    paths = sorted((Path(__file__).resolve().parents[1] / "results").glob("*.jsonl"))
    for path in paths:
        assert read_record(path).cells, path


def test_empty_absent_and_folder(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(UserError, match="empty"):
        read_record(tmp_path / "empty.jsonl")
    with pytest.raises(UserError, match=r"cannot be read \(No such file"):
        read_record(tmp_path / "absent.jsonl")
    with pytest.raises(UserError, match=r"'a\\x00b': cannot be read"):
        read_record(Path("a\0b"))


@given(st.binary(max_size=80), st.integers(0, 2000), st.integers(0, 60))
@settings(max_examples=120, deadline=None)
def test_any_damage_is_read_or_refused_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, at: int, cut: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.jsonl"
    path.unlink(missing_ok=True)
    whole = written(path, *ROWS)
    path.write_bytes(whole[:at] + noise + whole[at + cut :])
    try:
        read_record(path)
        return
    except UserError as error:
        message = str(error)
    assert message.startswith(str(path))
    assert "\n" not in message


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.sampled_from(["cell", "skip", "process", "header"]),
    st.dictionaries(
        st.sampled_from([*CellRow.__dataclass_fields__, *ProcessRow.__dataclass_fields__, "reason", "kind"]), _JSON
    ),
)
@settings(max_examples=120, deadline=None)
def test_any_row_is_read_or_refused_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, kind: str, fields: dict[str, object]
) -> None:
    path = tmp_path_factory.getbasetemp() / "row.jsonl"
    path.unlink(missing_ok=True)
    written(path)
    with path.open("a") as file:
        file.write(json.dumps({"kind": kind, **fields}) + "\n")
    try:
        read_record(path)
        return
    except UserError as error:
        message = str(error)
    assert message.startswith(f"{path}:2: ")
    assert "\n" not in message


def test_white_space_around_a_row_is_no_damage_and_a_second_row_on_its_line_is(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = written(path, *ROWS).splitlines()
    path.write_bytes(b"\n".join([lines[0], *(b" \t" + line + b" \r" for line in lines[1:])]) + b"\n")
    assert [len(part) for part in (read_record(path).cells, read_record(path).skips)] == [
        sum(isinstance(row, kind) for row in ROWS) for kind in (CellRow, SkipRow)
    ]
    path.write_bytes(b"\n".join([lines[0], lines[1] + lines[1], *lines[2:]]) + b"\n")
    with pytest.raises(UserError, match=r":2: not a row of a record \(JSONDecodeError: Extra data"):
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


@pytest.mark.parametrize(
    "content",
    [b'{"a": 1}', b'{"a": 1}\n', b"hello", b"\x98\xff\x00", b"\x98\n\xff\n", b"", b"[1, 2]"],
    ids=["json", "json line", "text", "bytes", "lines of bytes", "empty", "list"],
)
def test_of_a_file_of_something_else_nobody_is_told_to_delete_it(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"not a record; give a \.jsonl that a run wrote with --out") as told:
        read_record(path)
    assert str(told.value).startswith(str(path))


@pytest.mark.parametrize("name", ["", ".", "folder"])
def test_a_folder_or_an_empty_name_is_no_record(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match=f"'{name or '.'}': is a folder or no name at all"):
        read_record(Path(name))
    with pytest.raises(UserError, match="is a folder or no name at all"):
        check_writable(Path(name))
