"""Every command fits the terminal it is read on: 80 columns hold what it prints, 120 are made use of.

The commands are those that the three applications register, so a new one fails until it has a case here. Most run in
this process with COLUMNS set, a few on a true pseudo-terminal. What needs a GPU, nvcc or minutes is replaced by
recorded rows, so that the layout is judged and not the machine. Not judged: a file name, which has no place to break;
the ncu line of --by-hand, which is to be copied; rows for programs (csv, json).
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from rich.cells import cell_len

import gemm.cli.app
import micro.cli.app
import stats.cli.app
from micro.code.counts import CATEGORIES, Kernel, LoopCounts
from micro.code.cubin import Resources
from micro.doctor.probes import Finding
from micro.gpu.limits import Residency
from stats.base.errors import run_app
from stats.base.tables import fitted, render
from stats.record.reader import read_record
from tests.makers.page_files import put_pages

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
APPS = {"micro-bench": micro.cli.app.app, "gemm-bench": gemm.cli.app.app, "bench-stats": stats.cli.app.app}
RECORDS = sorted(RESULTS.glob("*.jsonl"))
MICRO, LADDER, CONTENTION, STREAM, PREFETCH = (
    str(RESULTS / f"{name}-h200.jsonl") for name in ("micro", "ladder-a", "contention", "stream", "prefetch")
)
FIGURES = "tables: {comparisons: {record: results/ladder-a-h200.jsonl, table: comparisons}}\n"


def measured_gemm() -> None:
    """What the bare ``gemm-bench`` prints on a GPU."""
    sys.stdout.write(gemm.cli.app._report(read_record(Path(PREFETCH)), "table"))


def measured_stream() -> None:
    """What ``gemm-bench explain stream`` prints on a GPU."""
    from gemm.explain.readings import STREAM_COLUMNS, stream_rows

    sys.stdout.write(render(STREAM_COLUMNS, stream_rows(read_record(Path(STREAM))), "table"))


Case = list[str] | Callable[[], None]
CASES: dict[str, list[Case]] = {
    "micro-bench": [[]],
    "micro-bench sass": [[], ["--diff", "A1", "A3"]],
    "micro-bench banks": [[], ["--instructions", "--variants", "A1,A3"]],
    "micro-bench instructions": [[]],
    "micro-bench contention": [[], ["--record", CONTENTION]],
    "micro-bench counters": [["--from", str(RESULTS / "counters-micro-h200.json")]],
    "micro-bench doctor": [[]],
    "gemm-bench": [[], measured_gemm],
    "gemm-bench aa": [["--record", str(RESULTS / "aa-h200-0.jsonl")]],
    "gemm-bench inject": [["--record", str(RESULTS / "inject-h200.jsonl")]],
    "gemm-bench sass": [[]],
    "gemm-bench tools": [["--record", str(RESULTS / "tools-h200.json")]],
    "gemm-bench counters": [["--from", str(RESULTS / "counters-gemm-h200.json")]],
    "gemm-bench check": [[]],
    "gemm-bench explain": [["--record", MICRO]],
    "gemm-bench explain claims": [["--record", MICRO]],
    "gemm-bench explain fit": [["--record", MICRO]],
    "gemm-bench explain kernels": [["--record", MICRO]],
    "gemm-bench explain stream": [measured_stream],
    "bench-stats": [["--help"]],
    "bench-stats compare": [[PREFETCH]],
    "bench-stats plan": [[MICRO, "--half-width", "0.1"]],
    "bench-stats repeats": [[LADDER, PREFETCH, "--a", "A1", "--b", "A3"]],
    "bench-stats table": [[PREFETCH], [MICRO, "--query", "comparisons"], [LADDER, "--list"]],
    "bench-stats plot": [[LADDER, "--figure", "paired", "--format", "svg"]],
    "bench-stats readme": [["--check", "--untraced"]],
    "bench-stats show": [[PREFETCH], [STREAM]],
    "bench-stats export": [],  # rows for programs
    "bench-stats report": [[STREAM, "--html", "page.html"]],
}


def commands(command: Any, name: str) -> Iterator[str]:
    """Every command below ``command``, and itself."""
    yield name
    for part, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, f"{name} {part}")


COMMANDS = [name for tool, app in APPS.items() for name in commands(typer.main.get_command(app), tool)]


def test_every_command_has_a_case() -> None:
    assert sorted(COMMANDS) == sorted(CASES)


def test_a_new_command_would_be_without_one() -> None:
    app = typer.Typer()
    app.command("known")(lambda: None)
    app.command("new")(lambda: None)
    assert list(commands(typer.main.get_command(app), "tool")) == ["tool", "tool known", "tool new"]


def too_wide(text: str, width: int) -> list[str]:
    """Lines that reach beyond ``width`` although they have a place to break: a path is one word and has none."""
    return [line for line in text.splitlines() if cell_len(line) > width and len(line.split()) > 1]


def test_a_line_that_is_too_wide_is_found() -> None:
    words = "word " * 17
    assert too_wide(f"{words}\n{'w' * 90}\n    {'w' * 90}\n{'─' * 80}\n", 80) == [words]


def _kernels(labels: dict[str, str]) -> list[Kernel]:
    made = []
    for arch, registers in ((80, 122), (90, 124), (100, 255)):
        for number, variant in enumerate(("A1", "A2", "A2L", "A3")):
            for swizzle in ("on", "off"):
                counts = dict.fromkeys(CATEGORIES, 2 * number + arch // 10)
                loop = LoopCounts(0, 1, 2, counts | {"HMMA": 32, "never": 3}, 0)
                told = {"variant": variant, "swizzle": swizzle, **labels}
                resources = Resources(registers, 0, 0)
                made.append(Kernel(arch, "kernel", told, loop, resources, 0, 49152, Residency(2, "shared memory")))
    return made


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded or made rows in the place of whatever needs a GPU, nvcc or minutes."""
    from gemm.explain import attribution, fit, guide, predict, roofline
    from gemm.ladder.check import CheckReport

    def recorded(name: str) -> Any:
        return json.loads((RESULTS / name).read_text(encoding="utf-8"))

    sections = {"ceilings": roofline, "predictions": predict, "attribution": attribution, "reading": guide}
    explained = recorded("explain.json")["sm_90"]
    fits = [
        {column.key: "port_cycles_per_line" if column.align == "left" else 100.25 for column in fit.COLUMNS}
        | {"chosen": "chosen", "worst_arm": "st.shared.b32/n32"}
    ]
    claims = [SimpleNamespace(as_data=lambda row=row: row) for row in recorded("claims.json")["claims"]]
    checked = CheckReport(
        1234, [f"A1: {'a word of it ' * 12}"], {("bf16", "shape", "A1"): 1.0}, {("bf16", "shape"): 1.0}
    )
    long = "a detail of many words " * 6
    findings = [Finding("host compiler", "warn", f"/usr/bin/{'g' * 70} {long}", long), Finding("ncu", "ok", long)]
    for place, value in {
        "micro.gpu.device.cuda_device_count": lambda: 0,
        "micro.doctor.examine.diagnose": lambda: findings,
        "micro.cli.static.parse_archs": lambda text: [80, 90],
        "micro.cli.static._micro_kernels": lambda archs: _kernels({"work": "load_mma"}),
        "gemm.kernel.compiled.compiled_kernels": lambda kernels, archs: _kernels({"build": "main table"}),
        "gemm.cli.campaigns.need_gpu": lambda what, device: None,
        "micro.gpu.device.describe_device": lambda index: (SimpleNamespace(arch=90), None),
        "gemm.kernel.library.build_gemm": lambda *arguments: None,
        "gemm.kernel.library.GemmLibrary": lambda path: None,
        "gemm.ladder.check.check_all": lambda *arguments: checked,
        "gemm.simulator.kernels.without_machine_code": lambda: None,
        "gemm.cli.explain._sections": lambda *arguments: {
            name: (module.COLUMNS, explained[name]) for name, module in sections.items()
        },
        "stats.report.html._figures": lambda source, number: "",
        "stats.report.figures.draw.image": lambda *arguments: b"",
        "gemm.truth.campaign_report._rate_of_verdict": lambda *arguments: 0.5,
        "gemm.claims.verdicts.judge": lambda evidence: claims,
        "gemm.explain.fit.fit_rows": lambda *arguments: fits * 3,
        "gemm.explain.reach.reach_rows": lambda *arguments: recorded("explain-kernels.json")["rows"],
    }.items():
        monkeypatch.setattr(place, value)


def printed(
    command: str,
    case: Case,
    width: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> str:
    """What a command writes to stdout where a terminal has ``width`` columns."""
    monkeypatch.setenv("COLUMNS", str(width))
    if callable(case):
        case()
    else:
        tool, *below = command.split()
        monkeypatch.setattr(sys, "argv", [tool, *below, *case])
        with pytest.raises(SystemExit):
            run_app(APPS[tool], tool)
    captured = capsys.readouterr()
    assert captured.out, captured.err
    return captured.out


@pytest.fixture
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to write into, with a page and the recorded results."""
    put_pages(tmp_path, FIGURES, readme="{{ table('comparisons') }}\n\n5 % more, which nobody measured\n")
    (tmp_path / "results").symlink_to(RESULTS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("stand_ins", "somewhere")
@pytest.mark.parametrize("command", CASES)
def test_a_command_fits_80_columns(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for case in CASES[command]:
        assert too_wide(printed(command, case, 80, monkeypatch, capsys), 80) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_80_columns(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert too_wide(printed(command, ["--help"], 80, monkeypatch, capsys), 80) == []


@pytest.mark.usefixtures("stand_ins", "somewhere")
@pytest.mark.parametrize(
    "command", ["micro-bench contention", "micro-bench sass", "gemm-bench tools", "gemm-bench explain"]
)
def test_what_80_columns_leave_out_stands_in_120(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    widest = 0
    for case in CASES[command]:
        text = printed(command, case, 120, monkeypatch, capsys)
        assert too_wide(text, 120) == []
        widest = max(widest, *map(cell_len, text.splitlines()))
    assert widest > 90


@pytest.mark.slow
@pytest.mark.usefixtures("somewhere")
@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.stem)
def test_every_record_fits(
    record: Path, width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("table", "show"):  # its main table, and a page with all the others
        assert too_wide(printed(f"bench-stats {name}", [str(record)], width, monkeypatch, capsys), width) == []


@pytest.mark.slow
@pytest.mark.parametrize("width", [80, 120])
def test_the_recorded_instructions_fit(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    case = ["--record", str(RESULTS / "instructions-h200.jsonl")]
    assert too_wide(printed("micro-bench instructions", case, width, monkeypatch, capsys), width) == []


def on_terminal(width: int, *command: str) -> str:
    """What a command writes to a terminal of ``width`` columns, errors among it; the terminal itself tells it."""
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    clean = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [sys.executable, "-m", *command], cwd=ROOT, env=clean, stdin=other, stdout=other, stderr=other
    )
    os.close(other)
    written = b""
    try:
        while more := os.read(main, 65536):
            written += more
    except OSError:  # how a terminal says that nobody holds its other end
        pass
    process.wait(timeout=60)
    os.close(main)
    return written.decode().replace("\r\n", "\n")


@pytest.mark.parametrize(
    "command",
    [
        ("stats", "show", "results/stream-h200.jsonl"),
        ("micro", "doctor"),
        ("gemm", "explain", "--arch", "100"),
        ("micro", "--config", "shapes"),
    ],
    ids=" ".join,
)
def test_on_a_true_terminal(command: tuple[str, ...]) -> None:
    text = on_terminal(80, *command)
    assert len(text.splitlines()) > 1
    assert too_wide(text, 80) == []
    assert max(map(cell_len, text.splitlines())) > 60


def test_a_line_of_a_pipe_stays_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())  # of which isatty() is False
    line = "one line a finding, for grep " * 20
    monkeypatch.delenv("COLUMNS", raising=False)
    assert fitted(line) == line
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, fitted(line).splitlines())) <= 80
