"""``micro-bench contention`` at the edge: bad input is one line and status 2, help is quick, records give tables."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from micro.bench.contention.design import ContentionConfig
from micro.cli import contention as cli_contention
from stats.base.config import load_config
from tests.makers.contention_record import make_record
from tests.makers.report_records import written
from tests.micro.cli.measured_cli import BAD, Edge


@pytest.fixture
def edge(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Edge:
    return Edge(cli_contention.register, "contention", monkeypatch, capsys)


def test_without_a_gpu_it_prints_ceilings_as_predicted(edge: Edge, capsys: pytest.CaptureFixture[str]) -> None:
    assert edge.call() == 0
    out = capsys.readouterr().out
    assert out.startswith("PREDICTED, NOT MEASURED")
    assert "ld.shared.b32/n24+cp.async/c2+mma" in out


@pytest.mark.parametrize(("arguments", "expected"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line(arguments: list[str], expected: str, edge: Edge, tmp_path: Path) -> None:
    edge.refuses(arguments, expected, tmp_path)


@pytest.mark.parametrize("text", ["arms: [mma]", "target_cycles: 5", "target_cycles: long", "blocks: 3"])
def test_bad_config_names_file_and_key(text: str, edge: Edge, tmp_path: Path) -> None:
    edge.refuses_config(text, text.partition(":")[0], tmp_path)


def test_the_named_config_is_the_experiment() -> None:
    loaded = load_config("contention", ContentionConfig)
    assert (loaded.processes, loaded.blocks, loaded.target_cycles) == (4, 10, ContentionConfig().target_cycles)


def test_the_table_of_a_record(edge: Edge, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    made = make_record()
    path = written(made, tmp_path / "made.jsonl")
    assert edge.call("--record", str(path), "--format", "md") == 0
    assert "| ldmatrix.x2/n4+mma | 4 | 16 | – | 24.650" in capsys.readouterr().out


def test_the_command_is_part_of_micro_bench_and_help_needs_no_heavy_import() -> None:
    code = (
        "import sys\n"
        "from micro.cli.app import app\n"
        "assert 'contention' in [command.name for command in app.registered_commands]\n"
        "heavy = {'torch', 'scipy', 'matplotlib', 'statsmodels', 'pandas', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).resolve().parents[3])
