"""``micro-bench contention`` at the edge: bad input is one line and status 2, help is quick, records give tables."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import typer
from contention_record import make_record

from micro import cli_contention, device
from micro.contention import ContentionConfig
from stats.config import load_config
from stats.errors import run_app
from stats.records import RecordWriter


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.callback()(lambda: None)
    cli_contention.register(app)
    monkeypatch.setattr(sys, "argv", ["micro-bench", "contention", *arguments])
    monkeypatch.setattr(device, "cuda_device_count", lambda: 0)
    with pytest.raises(SystemExit) as stop:
        run_app(app, "micro-bench")
    return int(stop.value.code or 0)


def test_without_a_gpu_it_prints_ceilings_as_predicted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch) == 0
    out = capsys.readouterr().out
    assert out.startswith("PREDICTED, NOT MEASURED")
    assert "ld.shared.b32/n24+cp.async/c2+mma" in out


BAD = {
    "format": (["--format", "xml"], "choose from table, md, csv, json"),
    "config name": (["--config", "nowhere"], "no such name"),
    "record": (["--record", "absent.jsonl"], "cannot be read"),
    "record and out": (["--record", "a.jsonl", "--out", "b.jsonl"], "measures nothing"),
    "out without gpu": (["--out", "b.jsonl"], "no CUDA device"),
    "device": (["--device", "-1"], "Invalid value for '--device': "),
    "resume alone": (["--resume"], "--resume: there is no record to continue"),
}


@pytest.mark.parametrize(("arguments", "expected"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line(
    arguments: list[str],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, *arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert expected in captured.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["arms: [mma]", "target_cycles: 5", "target_cycles: long", "blocks: 3"])
def test_bad_config_names_file_and_key(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text + "\n")
    assert call(monkeypatch, "--config", str(path)) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert str(path) in error
    assert text.partition(":")[0] in error


def test_the_named_config_is_the_experiment() -> None:
    loaded = load_config("contention", ContentionConfig)
    assert (loaded.processes, loaded.blocks, loaded.target_cycles) == (4, 10, ContentionConfig().target_cycles)


def test_the_table_of_a_record(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    made = make_record()
    path = tmp_path / "made.jsonl"
    with RecordWriter(path, made.header) as writer:
        for row in (*made.skips, *made.events[:1], *made.cells, *made.events[1:]):
            writer.append(row)
    assert call(monkeypatch, "--record", str(path), "--format", "md") == 0
    assert "| ldmatrix.x2/n4+mma | 4 | 16 | – | 24.650" in capsys.readouterr().out


def test_the_command_is_part_of_micro_bench_and_help_needs_no_heavy_import() -> None:
    code = (
        "import sys\n"
        "from micro.cli import app\n"
        "assert 'contention' in [command.name for command in app.registered_commands]\n"
        "heavy = {'torch', 'scipy', 'matplotlib', 'statsmodels', 'pandas', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).resolve().parent.parent)
