"""Whatever a record, a config or a file name holds: no command lets a control out, crashes or breaks its own format.

Records and configs are made here from a table: classes of characters, the places where a text can stand, headers that
no run could have. What counts as a control is asked of Unicode, not of the code under test.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import sys
import unicodedata
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gemm.cli import app as gemm_cli
from micro.bench.instructions.design import InstructionsConfig
from micro.bench.instructions.figure import draw_heat_maps
from micro.bench.instructions.results import points_of
from micro.cli import app as micro_cli
from micro.gpu import device
from stats.base.errors import UserError
from stats.base.safe_text import SafeStream, csv_text, dumped, markdown_text, safe_lines, safe_text
from stats.cli import app as cli
from stats.record.reader import newest_first, read_record
from stats.record.schema import ArmInfo, ClockState, Record
from stats.record.writer import RecordWriter
from stats.run.progress import TerminalProgress, announced_steps
from tests.makers.instruction_record import make_record as instruction_record
from tests.makers.report_records import DEVICE, make_record, written

CLASSES = {
    "nul": "\0",
    "bel": "\a",
    "backspace": "\b",
    "tab": "\t",
    "newline": "\n",
    "carriage return": "\r",
    "escape": "\x1b]0;owned\x07\x1b[31m",
    "unit separator": "\x1f",
    "delete": "\x7f",
    "next line": "\x85",
    "csi": "\x9b2J",
    "soft hyphen": "\xad",
    "arabic mark": "\u061c",
    "zero width": "\u200b",
    "left mark": "\u200e",
    "right mark": "\u200f",
    "line separator": "\u2028",
    "paragraph separator": "\u2029",
    "override": "\u202e",
    "embedding": "\u202a",
    "isolate": "\u2066",
    "pop isolate": "\u2069",
    "byte-order mark": "\ufeff",
    "no character": "\ufffe\uffff",
    "low surrogate": "\udc9b",
    "high surrogate": "\ud800",  # after the low one: the other way round they are a character
    "tag": "\U000e0041",
    "html": "<script>alert(1)</script><!--",
    "markdown": "|`x`](javascript:alert) ![a](b) **b** _c_ &lt; \\|",
    "formula": "=cmd|' /C calc'!A0",
    "math": "$\\frac{$ $x$",
    "markup": "[red]{task.fields} %s {0}",
}
EVERYTHING = "".join(CLASSES.values())
PLACES = (
    *("device", "uuid", "driver", "arm", "label", "tool", "software", "commit", "run", "sources", "flags"),
    *("workload", "config", "throttle", "skip", "detail", "value"),
)
Run = Callable[..., tuple[int, str, str]]


def hostile_record(text: str, places: tuple[str, ...] = PLACES) -> Record:
    """A small record with ``text`` inside each of ``places``."""

    def at(place: str, usual: str) -> str:
        return f"{text}{usual}{text}" if place in places else usual

    arm = at("arm", "A")
    record = make_record(
        {arm: 1.0, "B": 1.1, "B.twin": 1.1},
        per_level_ns=1e6,
        processes=2,
        blocks=2,
        throttled={(0, 0): at("throttle", "HwSlowdown")},
        skips={at("arm", "C"): at("skip", "not supported")},
        values=True,
        tool=at("tool", "mine"),
        run_id=at("run", "example"),
        git_commit=at("commit", "0"),
        arms=[ArmInfo(name=name) for name in (arm, "B", "B.twin", at("arm", "C"))],
        reference="B",
        twin="B.twin",
        comparisons=[(arm, "B")],
        device=DEVICE.model_copy(
            update={
                "name": at("device", "GPU"),
                "uuid": at("uuid", "0"),
                "driver": at("driver", "1"),
            }
        ),
        clocks=ClockState(requested="auto", effective="monitor", label=at("label", "monitored")),
        software={at("software", "python"): at("software", "3")},
        sources=[at("sources", "a.cu")],
        build_flags=[at("flags", "-O3")],
        workload={at("workload", "kernel"): at("workload", "mine")},
        config={at("config", "a"): at("config", "b")},
    )
    record.events = [type(event)(event.process, "failed", 0, at("detail", "x")) for event in record.events[:1]]
    for cell in record.cells:
        object.__setattr__(cell, "values", {at("value", "cycles"): 1.0})
    return record


def clean(text: str) -> str:
    """``text``, in which nothing but the end of a line is a control, a mark that nobody sees or half a character."""
    seen = {one for one in text if unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp") or one in "\ufffe\uffff"}
    assert seen <= {"\n"}, seen
    return text


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """A command in a folder of its own, without a GPU; its status and what it wrote, which is clean."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(device, "cuda_device_count", lambda: 0)

    def command(*arguments: str, main: Callable[[], None] = cli.main) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["bench", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return int(stop.value.code or 0), clean(said.out), clean(said.err)

    return command


def every_table(run: Run, path: str, arm: str | None = None) -> None:
    """Every command that writes text, in every format; ``arm`` is the exact name that JSON must give back."""
    for fmt in ("table", "md", "csv", "json"):
        status, out, _ = run("table", path, "--format", fmt)
        assert status == 0
        if fmt == "md":
            assert "<script" not in out
            heading, _, *rows = [line for line in out.splitlines() if line.startswith("|")]
            assert len(rows) == 4
            assert {len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in rows} == {heading.count("|")}
        elif fmt == "csv":
            rows_of_csv = list(csv.reader(io.StringIO(out)))
            assert len({len(row) for row in rows_of_csv}) == 1
            assert not [cell for row in rows_of_csv for cell in row if cell.startswith("=")]
        elif fmt == "json":
            assert arm in [None, json.loads(out)["rows"][0]["arm"]]
        status, out, _ = run("compare", path, "--format", fmt)
        assert status in (0, 1, 2)
        assert out
        if fmt == "json":
            assert arm in [None, json.loads(out)["comparisons"][0]["a"]]
        if fmt != "csv":
            status, out, _ = run("show", path, "--format", fmt)
            assert status == 0
            assert "<script" not in out or fmt != "md"
    status, out, _ = run("export", path)
    assert status == 0
    assert len(out.splitlines()) == 1 + 12 + 1
    status, out, _ = run("export", path, "--form", "pandas", "--out", "out.json")
    assert status == 0
    rows = json.loads(clean(Path("out.json").read_text(encoding="utf-8")))["data"]
    assert arm in {None, *(row["arm"] for row in rows)}
    assert run("table", path, "--list")[0] == 0


@pytest.mark.parametrize("text", CLASSES.values(), ids=CLASSES)
def test_a_class_of_characters_in_every_place_steers_nothing(run: Run, text: str) -> None:
    written(hostile_record(text), Path("r.jsonl"))
    every_table(run, "r.jsonl", f"{text}A{text}")


@pytest.mark.parametrize("place", PLACES)
def test_every_class_in_one_place_steers_nothing(run: Run, place: str) -> None:
    written(hostile_record(EVERYTHING, (place,)), Path("r.jsonl"))
    for arguments in (["show", "--format", "md"], ["compare"], ["export"], ["table", "--query", "exclusions"]):
        status, out, _ = run(arguments[0], "r.jsonl", *arguments[1:])
        assert status == (2 if arguments == ["compare"] else 0)
        assert "<script" not in out or arguments[-1] != "md"


def test_figures_and_pages_of_a_hostile_record_are_well_formed(run: Run) -> None:
    written(hostile_record(EVERYTHING), Path("r.jsonl"))
    status, out, _ = run("plot", "r.jsonl", "--out", "figures")
    assert status == 0
    assert len(out.splitlines()) == 8
    for path in Path("figures").glob("*.svg"):
        ElementTree.fromstring(clean(path.read_text(encoding="utf-8")))
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in Path("figures").glob("*.png"))
    assert run("report", "r.jsonl", "--html", "out.html", "--title", "<b>\x1b")[0] == 0
    page = clean(Path("out.html").read_text(encoding="utf-8"))
    assert "<script" not in page
    assert "<b>" not in page
    first = hostile_record(EVERYTHING)
    again = replace(first, header=first.header.model_copy(update={"seed": 2}))
    written(again, Path("again.jsonl"))
    assert run("repeats", "r.jsonl", "again.jsonl", "--a", f"{EVERYTHING}A{EVERYTHING}", "--b", "B")[0] == 0
    assert run("plan", "r.jsonl", "--half-width", "50%", "--a", f"{EVERYTHING}A{EVERYTHING}")[0] in (0, 2)


@pytest.mark.parametrize("text", [*CLASSES.values(), EVERYTHING], ids=[*CLASSES, "everything"])
def test_what_a_message_quotes_steers_nothing(run: Run, text: str) -> None:
    written(hostile_record(text), Path("r.jsonl"))
    for arguments in (
        ["show", f"{text}.jsonl"],
        ["table", "r.jsonl", "--query", text],
        ["compare", "r.jsonl", "--a", text],
        ["compare", "r.jsonl", "--margin", text],
        ["show", f"--{text}"],
    ):
        status, out, err = run(*arguments)
        assert (status, out, err.count("\n")) == (2, "", 1), arguments


@pytest.mark.parametrize("name", ["\x1b[31m", "\u202e", "a\nb", "..", "$x$ $\\frac{$", "\udc9b", "=1"])
def test_a_file_name_is_shown_and_chooses_no_place(run: Run, name: str) -> None:
    folder = Path("deep/er")
    folder.mkdir(parents=True)
    path = folder / f"{name}.jsonl"
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        pytest.skip("no such name on this system")
    written(hostile_record("", ()), path)
    assert [run("show", str(path))[0], run("export", str(path))[0]] == [0, 0]
    status, out, _ = run("plot", str(path), "--figure", "ladder", "--format", "svg", "--out", "deep/figures")
    assert status == 0
    (drawn,) = Path("deep/figures").iterdir()
    clean(drawn.name)
    assert out == f"deep/figures/{drawn.name}\n"


@pytest.mark.parametrize("text", CLASSES.values(), ids=CLASSES)
def test_json_reads_back_as_it_was_and_other_text_stays_one_line(text: str) -> None:
    value = {text: [text, 1.5, None, "µs × – ±"]}
    assert json.loads(clean(dumped(value))) == value
    assert "µs × – ±" in dumped(value)
    assert "\n" not in clean(safe_text(text))
    assert clean(safe_lines(f"{text}\n")).endswith("\n")


def test_what_is_no_control_is_left_alone() -> None:
    for text in (
        "A1/noswz:load+mma",
        "24.05 ±0.01 µs",
        "NVIDIA H200",
        "état 日本",
        "p <.001",
        "-1.5",
        "+2.1 % [+1, +3]",
    ):
        assert text == safe_text(text) == csv_text(text) == markdown_text(text)
    assert safe_text("\x1b\u202e\ud800\n") == r"\x1b\u202e\ud800\n"
    assert markdown_text("<b>") == "&lt;b>"
    assert markdown_text("a|b `c` [d](e) __f__") == r"a\|b \`c\` [d]\(e) \_\_f__"
    assert [csv_text(text) for text in ("=1+1", "@a", "-1+cmd|x", "+a")] == ["'=1+1", "'@a", "'-1+cmd|x", "'+a"]


class Terminal(io.StringIO):
    """A stream that says it is a terminal, as rich asks."""

    def isatty(self) -> bool:
        return True


def test_progress_is_drawn_by_rich_and_its_texts_are_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    text = "[red]arm[/red] \x9b2J \x1b]0;owned\x07 {task.fields}"
    raw = Terminal()
    with announced_steps(2, SafeStream(raw)) as step:  # type: ignore[arg-type]
        step(text)
    shown = TerminalProgress(SafeStream(raw))  # type: ignore[arg-type]
    shown.note(text)
    shown.begin(2, 0)
    shown.status(text)
    shown.note(text)
    shown.end()
    out = raw.getvalue()
    assert "\x1b[" in out  # rich's own
    assert "[red]arm[/red] \\x9b2J \\x1b]0;owned\\x07 {task.fields}" in out
    assert not set("\x9b\x07") & set(out)


def test_the_heat_maps_of_a_hostile_record_are_well_formed(tmp_path: Path) -> None:
    config = InstructionsConfig(instructions=["ldmatrix.x4"], warps=[1, 2], in_flight=[1, 2], random_patterns=0)
    draw_heat_maps(points_of(instruction_record(config)), tmp_path / "a.svg", EVERYTHING)
    ElementTree.fromstring(clean((tmp_path / "a.svg").read_text(encoding="utf-8")))


# Headers that no run could have


def header_with(**changes: Any) -> bytes:
    """The bytes of a record whose header differs in ``changes``, a path of keys joined by ``__`` each."""
    header = hostile_record("", ()).header.model_dump(mode="json")
    for path, value in changes.items():
        *outer, last = path.split("__")
        at = header
        for key in outer:
            at = at[key]
        at[last] = value
    return json.dumps(header).encode() + b"\n"


HEADERS = {
    "margin below 0": ({"margin_percent": -1}, "header field margin_percent: -1 is not above 0"),
    "margin of 0": ({"margin_percent": 0}, "margin_percent: 0 is not above 0"),
    "margin of all": ({"margin_percent": 100}, "margin_percent: 100 is not below 100"),
    "no margin": ({"margin_percent": None}, "margin_percent: null is not a number"),
    "strange reference": ({"reference": "Z\x1b"}, r"header: reference: 'Z\x1b' is none of its arms"),
    "strange twin": ({"twin": "Z"}, "header: twin: 'Z' is none of its arms"),
    "strange pair": ({"comparisons": [["A", "Z"]]}, "header: comparisons: 'Z' is none of its arms"),
    "pair of one": ({"comparisons": [["A", "A"]]}, "header field comparisons: A is compared with itself"),
    "arm twice": ({"arms": [{"name": "B"}] * 2}, "header: arms: 'B' is declared twice"),
    "arms of another kind": ({"arms": ["A"]}, 'header field arms.0: "A" is not a mapping'),
    "no SM": ({"device__sm_count": 0}, "header field device.sm_count: 0 is below 1"),
    "too many SMs": ({"device__sm_count": 10**12}, "device.sm_count: 1000000000000 is above 100000"),
    "half an SM": ({"device__sm_count": 1.5}, "device.sm_count: 1.5 is not an integer"),
    "capability": ({"device__compute_capability": "new"}, "'new' is not a compute capability such as 9.0"),
    "device of another kind": ({"device": []}, "header field device: [] is not a mapping"),
    "registers": ({"arms": [{"name": "B", "static": {"registers": 1e300}}]}, "arms.0.static: registers is 1e+300"),
    "wavefronts": ({"arms": [{"name": "B", "static": {"wavefronts": "x"}}]}, "wavefronts is x, not an integer from 0"),
    "instruction": ({"arms": [{"name": "B", "static": {"instruction": 1}}]}, "instruction is 1, not text"),
    "prediction": ({"arms": [{"name": "B", "static": {"predicted_cycles": 0}}]}, "is 0, not a number above 0"),
    "m of 0": ({"workload": {"m": 0}}, "header field workload: m is 0, not an integer from 1 to"),
    "k below 0": ({"workload": {"k": -4096}}, "workload: k is -4096, not an integer"),
    "n of digits": ({"workload": {"n": 10**400}}, "workload: n is 1000"),
    "n of text": ({"workload": {"n": "many"}}, "workload: n is many, not an integer"),
    "blocks per SM": ({"workload": {"blocks_per_sm": "two"}}, "workload: blocks_per_sm is two"),
    "processes": ({"processes": 10**12}, "header field processes: 1000000000000 is above 1000"),
    "no process": ({"processes": 0}, "processes: 0 is below 1"),
    "blocks": ({"blocks": 10**9}, "blocks: 1000000000 is above 100000"),
    "launches": ({"launches": 0}, "launches: 0 is below 1"),
    "clock": ({"clocks__locked_sm_mhz": 0}, "clocks.locked_sm_mhz: 0 is not above 0"),
    "mode": ({"l2_mode": "warm"}, "l2_mode: 'warm' is not one of 'hot' or 'flushed'"),
    "unknown key": ({"bell\a": 1}, r"header field bell\x07: unknown key"),
    "newer": ({"schema_version": 10**300}, "written with record schema 1000"),
}


@pytest.mark.parametrize(("changes", "says"), HEADERS.values(), ids=HEADERS)
def test_a_header_that_no_run_could_have_is_refused_in_one_line(run: Run, changes: Any, says: str) -> None:
    Path("r.jsonl").write_bytes(header_with(**changes))
    status, out, err = run("show", "r.jsonl")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("bench-stats: r.jsonl:")
    assert says in err
    assert not re.search(r"Error|pydantic|Input should|Field required", err)


WHOLE = header_with()
FILES = {
    "key twice": (WHOLE.replace(b'"seed"', b'"seed": 1, "seed"'), "r.jsonl:1: key 'seed' is given twice"),
    "huge integer": (WHOLE.replace(b'"processes": 2', b'"processes": ' + b"9" * 5000), "r.jsonl:1: not JSON"),
    "huge integer in a row": (WHOLE + b'{"kind":"cell","process":' + b"9" * 5000 + b"}\n", "of thousands of digits"),
    "huge integer after a space": (
        b" " + WHOLE.replace(b'"processes": 2', b'"processes": ' + b"9" * 5000),
        ":1: not JSON",
    ),
    "deep after a space": (b" " + b"[" * 100_000 + b"]" * 100_000 + b"\n", "r.jsonl:1: not JSON"),
    "UTF-16": (WHOLE.decode().encode("utf-16"), "r.jsonl: UTF-16 or UTF-32 text, and a record is UTF-8; save it"),
    "UTF-16 the other way": (b"\xfe\xff" + WHOLE.decode().encode("utf-16-be"), "UTF-16 text"),
    "cut gzip": (gzip.compress(WHOLE)[:-9], "r.jsonl: gzip that is cut off"),
    "damaged gzip": (gzip.compress(WHOLE)[:-8] + b"\0" * 8, "r.jsonl: damaged gzip"),
    "begun gzip": (b"\x1f\x8b", "r.jsonl: gzip that is cut off"),
    "gzip of something else": (gzip.compress(b"text\n"), "r.jsonl:1: not JSON, so not a record"),
    "controls": (b"\x1b[31m\x9b\x00\n", "r.jsonl:1: not UTF-8"),
    "Latin-1": (WHOLE.replace(b"mine", b"min\xe9"), "r.jsonl:1: not UTF-8"),
    "deep": (WHOLE + b'{"kind":' * 50_000 + b"\n", "r.jsonl:2: not a row of a record (nested too deeply)"),
    "hostile kind": (WHOLE + b'{"kind":"\\u001b\\ud800"}\n', "r.jsonl:2: not a row of a record (unknown kind"),
    "hostile key": (WHOLE + b'{"kind":"skip","arm":"A","reason":"","\\u009b":1}\n', r"unknown field '\x9b'"),
}


@pytest.mark.parametrize(("content", "says"), FILES.values(), ids=FILES)
def test_a_file_that_is_no_record_is_refused_in_one_line(run: Run, content: bytes, says: str) -> None:
    Path("r.jsonl").write_bytes(content)
    for command in ("show", "compare"):
        status, out, err = run(command, "r.jsonl")
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert says in err
        assert not re.search(r"\w+Error|set_int_max", err)


def test_packed_and_marked_records_are_read_as_they_are(run: Run, tmp_path: Path) -> None:
    record = hostile_record("", ())
    whole = written(record, Path("r.jsonl")).read_bytes()
    packed, marked = Path("p.jsonl.gz"), Path("m.jsonl")
    packed.write_bytes(gzip.compress(whole[:900]) + gzip.compress(whole[900:]))  # members may follow each other
    marked.write_bytes(b"\xef\xbb\xbf" + whole)
    plain = run("export", "r.jsonl")[1]
    for path in (packed, marked):
        assert read_record(path).header == record.header
        assert run("export", str(path))[1] == plain.replace("\nr.jsonl,", f"\n{path},")
        assert read_record(path).name == path.name[0]
    assert run("compare", "r.jsonl", str(packed))[2].endswith("are the same run; give each run once\n")
    assert {path.name for path in newest_first(tmp_path, "mine")} == {"r.jsonl", str(packed), str(marked)}
    assert "a record of mine, not of" in run("contention", "--record", str(packed), main=micro_cli.main)[2]
    assert "exists already and may be a record" in run("report", "r.jsonl", "--html", str(packed))[2]


def test_a_packed_record_is_not_continued(tmp_path: Path) -> None:
    whole = written(hostile_record("", ()), tmp_path / "r.jsonl").read_bytes()
    for name in ("p.jsonl.gz", "p.jsonl"):
        path = tmp_path / name
        path.write_bytes(gzip.compress(whole))
        before = path.read_bytes()
        with pytest.raises(UserError, match="a record is written plain"):
            RecordWriter(path, hostile_record("", ()).header, resume=True)
        assert path.read_bytes() == before


# Configs and pages

CONFIGS = {
    "control in a key": ('"\\e[31m": 1\n', r"\x1b[31m: unknown key"),
    "override in a key": ('"\\u202e": 1\n', r"\u202e: unknown key"),
    "control in a value": ('clocks: "\\e]0;x\\a"\n', "clocks: "),
    "raw control": ("a: \x1b\n", "not YAML"),
    "raw C1": ("seed: \x9b\n", "not YAML"),
    "override in a value": ("clocks: \u202e\n", "clocks: "),
    "separators": ('comparisons: [["\\L", "\\L"]]\n', "is compared with itself"),
    "surrogate": ('clocks: "\\ud800"\n', "mine.yaml"),
    "pair of one": ("comparisons: [[A1, A1]]\n", "mine.yaml:1: comparisons: A1 is compared with itself"),
    "margin below 0": ("margin_percent: -1\n", "mine.yaml:1: margin_percent: -1 is not above 0"),
    "margin of 100": ("margin_percent: 100\n", "margin_percent: 100 is not below 100"),
    "processes": ("processes: 1000000000000\n", "processes: 1000000000000 is above 1000"),
    "key twice": ("seed: 1\nseed: 2\n", "mine.yaml:2: seed: given already in line 1"),
    "deep": ("a: " + "[" * 5000 + "]" * 5000 + "\n", "nested too deeply"),
    "deep key": ("".join(" " * depth + "a:\n" for depth in range(200)), "nested too deeply"),
    "huge integer": ("seed: " + "9" * 5000 + "\n", "mine.yaml:1: an integer of 5000 digits, which no key takes"),
    "octal": ("launches: 0o\n", 'launches: "0o" is not an integer'),
    "base 60": ("processes: 1:30\n", 'processes: "1:30" is not an integer'),
    "underscore": ("processes: 1_0\n", 'processes: "1_0" is not an integer'),
    "yes": ("variants: yes\n", 'mine.yaml:1: variants: "yes" is not a list'),
    "date": ("seed: 2024-01-01\n", 'seed: "2024-01-01" is not an integer'),
    "tag": ("seed: !!python/object:os.system x\n", "not YAML"),
    "UTF-16": ("seed: 1\n".encode("utf-16").decode("latin-1"), "mine.yaml"),
}


@pytest.mark.parametrize(("text", "says"), CONFIGS.values(), ids=CONFIGS)
def test_a_hostile_config_is_refused_in_one_line(run: Run, text: str, says: str) -> None:
    encoding = "latin-1" if text.startswith("\xff\xfe") else "utf-8"
    Path("mine.yaml").write_bytes(text.encode(encoding, "surrogatepass"))
    for main in (micro_cli.main, gemm_cli.main):
        status, out, err = run("--config", "mine.yaml", main=main)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert says in err
        assert not re.search(r"\w+Error|set_int_max|Input should", err)
    assert run("contention", "--config", "mine.yaml", main=micro_cli.main)[0] == 2


@pytest.mark.parametrize("text", [EVERYTHING.replace("\0", ""), "\x1b[31m", "\u202e", "a\nb", "\udc9b"])
def test_a_hostile_config_name_is_refused_in_one_line(run: Run, text: str) -> None:
    for name in (text, f"{text}.yaml"):
        status, out, err = run("--config", name, main=micro_cli.main)
        assert (status, out, err.count("\n")) == (2, "", 1)


def test_a_marked_config_is_read(run: Run) -> None:
    Path("mine.yaml").write_bytes(b"\xef\xbb\xbfswizzle: on\nlaunches: 010\n")
    assert run("--config", "mine.yaml", "--format", "json", main=micro_cli.main)[0] == 0
