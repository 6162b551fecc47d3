"""What is no record, or a damaged one, is refused in one line that names the file and, where there is one, the line."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stats.base.errors import UserError
from stats.record.reader import read_record
from stats.record.schema import SCHEMA_VERSION, CellRow, ProcessRow
from stats.record.writer import check_writable
from tests.makers.rows import ROWS, cell, written


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"", "not a row"),
        (b"null", "not an object"),
        (b"[1]", "not an object"),
        (b"{}", "unknown kind None"),
        (b'{"kind":"other"}', "unknown kind 'other'"),
        (b'{"kind":["cell"]}', "unknown kind"),
        (b'{"kind":"cell"}', r"not a row of a record \(field process is missing\)"),
        (b'{"kind":"skip","arm":"A"}', "field reason is missing"),
        (b'{"kind":"skip","arm":"A","arm":"B","reason":"x"}', "key 'arm' is given twice"),
        (b'{"kind":"skip","arm":' + b"9" * 5000 + b"}", "an integer of thousands of digits"),
        (b'{"kind":"skip"', "not JSON at column 15: expecting"),
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
        ("values", [1], r"values is \[1\], not figures by name"),
        ("unheard_of", 1, "unknown field 'unheard_of'"),
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
        (b'{"kind":"header","schema_version":1}', "header field tool: missing"),
        (b'{"kind":"header","schema_version":999}', f"written with record schema 999, .* reads up to {SCHEMA_VERSION}"),
    ],
)
def test_a_record_without_its_header_is_refused(tmp_path: Path, first_line: bytes, says: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(first_line + b"\n")
    with pytest.raises(UserError, match=says):
        read_record(path)


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
    why = "folder: is a folder; give" if name == "folder" else r"'\.': an empty name, or the folder here; give"
    with pytest.raises(UserError, match=f"^{why} the name of a file$"):
        read_record(Path(name))
    with pytest.raises(UserError, match=f"^--out {why} the name of a file$"):
        check_writable(Path(name))
