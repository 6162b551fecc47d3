"""A figure of kernels that have changed since says so, whichever command shows it and in whatever form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands import COMMANDS, Command

RESULTS = Path(__file__).resolve().parents[1] / "results"
pytestmark = pytest.mark.skipif(not RESULTS.is_dir(), reason="no recorded runs here")
# What each command is given; {} is the folder of records.
SHOWN = {
    "micro-bench": [],  # the newest recorded run, where nothing can be measured
    "micro-bench instructions": ["--record", "{}/instructions-h200.jsonl"],
    "micro-bench contention": ["--record", "{}/contention-h200.jsonl"],
    "micro-bench counters": ["--from", "{}/counters-micro-h200.json"],
    "gemm-bench counters": ["--from", "{}/counters-gemm-h200.json"],
    "gemm-bench tools": ["--record", "{}/tools-h200.json"],
    "gemm-bench aa": ["--record", "{}/aa-h200-0.jsonl"],
    "gemm-bench inject": ["--record", "{}/inject-h200.jsonl"],
    "gemm-bench explain": ["--record", "{}/stream-h200.jsonl"],
    "gemm-bench explain claims": ["--record", "{}/counters-gemm-h200.json"],
    "gemm-bench explain fit": ["--record", "{}/stream-h200.jsonl"],
    "gemm-bench explain kernels": ["--record", "{}/stream-h200.jsonl"],
    "bench-stats compare": ["{}/stream-h200.jsonl"],
    "bench-stats plan": ["{}/stream-h200.jsonl", "--half-width", "1%"],
    "bench-stats repeats": ["{}/prefetch-h200.jsonl", "{}/stages-h200.jsonl", "--a", "A1", "--b", "A3"],
    "bench-stats table": ["{}/stream-h200.jsonl"],
    "bench-stats show": ["{}/stream-h200.jsonl"],
    "bench-stats export": ["{}/stream-h200.jsonl"],
}
ELSEWHERE = {"bench-stats plot", "bench-stats report"}  # into files: test_report_figures.py, test_report_outputs.py


def test_every_command_that_reads_records_is_here() -> None:
    reads = {
        name
        for name, command in COMMANDS.items()
        if {"record", "records", "from_file"} & {param.name for param in command.params}
    }
    assert reads | {"micro-bench"} == SHOWN.keys() | ELSEWHERE


@pytest.fixture
def altered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder to read, whose records, as a test names them, are of other sources; what takes long is left out."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gemm.cli.explain._sections", lambda *_: {})
    monkeypatch.setattr("gemm.simulator.kernels.without_machine_code", lambda: None)
    monkeypatch.setattr("gemm.claims.verdicts.judge", lambda _: [])
    monkeypatch.setattr("gemm.explain.fit.fit_rows", lambda *_: [])
    monkeypatch.setattr("gemm.explain.reach.reach_rows", lambda *_: [])
    monkeypatch.setattr("gemm.truth.campaign_report.judge", lambda _: [])
    for rows in ("aa_rows", "inject_rows"):
        monkeypatch.setattr(f"gemm.truth.campaign_report.{rows}", lambda _: [{"inside": "yes"}])
    monkeypatch.setattr("stats.analysis.repeats.repeat_rows", lambda *_: [])
    monkeypatch.setattr("micro.gpu.device.cuda_device_count", lambda: 0)
    return tmp_path / "results"


def alter(name: str, folder: Path) -> None:
    head, end, rest = (RESULTS / name).read_text(encoding="utf-8").partition("\n" if name.endswith("l") else "\0")
    data: dict[str, Any] = json.loads(head)
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(data | {"source_hash": "0" * 16}) + end + rest, encoding="utf-8")


@pytest.mark.parametrize("command", SHOWN)
def test_it_is_marked_on_the_page_and_beside_data(command: str, altered: Path, run_command: Command) -> None:
    files = [argument.removeprefix("{}/") for argument in SHOWN[command] if argument.startswith("{}/")]
    for name in files or ["micro-h200.jsonl"]:
        alter(name, altered)

    def stale(folder: Path, *options: str) -> tuple[bool, bool]:
        _, out, err = run_command(command, *(argument.format(folder) for argument in SHOWN[command]), *options)
        return ("STALE" in " ".join(out.split()), "STALE" in err)

    forms = {param.name for param in COMMANDS[command].params} & {"fmt", "form"}
    if forms == {"fmt"}:
        assert stale(altered) == (True, False)
    if command != "micro-bench":  # data of a prediction hold no recorded figure
        in_data = stale(altered, *(["--format", "json"] if forms == {"fmt"} else []))
        assert any(in_data)
    else:
        for path in altered.iterdir():
            path.unlink()
        altered.rmdir()
    assert stale(RESULTS) == (False, False)
