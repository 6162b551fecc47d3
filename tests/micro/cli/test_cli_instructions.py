"""``micro-bench instructions`` at the edge: bad input is one line and status 2, help is quick, records give tables."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from micro.bench.instructions.design import InstructionsConfig
from micro.cli import instructions as cli_instructions
from stats.base.errors import UserError
from stats.record.writer import RecordWriter
from tests.makers.instruction_record import make_record
from tests.makers.report_records import written
from tests.micro.cli.measured_cli import BAD, Edge


@pytest.fixture
def edge(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Edge:
    return Edge(cli_instructions.register, "instructions", monkeypatch, capsys)


def test_without_a_gpu_it_predicts(edge: Edge, capsys: pytest.CaptureFixture[str]) -> None:
    assert edge.call() == 0
    out = capsys.readouterr().out
    assert out.startswith("PREDICTED, NOT MEASURED")
    assert "ldmatrix.x4.trans" in out


OF_FIGURES = {
    "figure without gpu": (["--figure", "b.png"], "no CUDA device"),
    "figure suffix": (["--figure", "b.bmp"], "ends in .png"),
    "figure folder": (["--figure", "absent/b.png"], "no folder"),
}


@pytest.mark.parametrize(("arguments", "expected"), (BAD | OF_FIGURES).values(), ids=BAD | OF_FIGURES)
def test_bad_input_is_one_line(arguments: list[str], expected: str, edge: Edge, tmp_path: Path) -> None:
    edge.refuses(arguments, expected, tmp_path)


CONFIGS = {
    "unknown key": ("warp: [1]", "warp"),
    "unknown instruction": ("instructions: [ldmatrix.x8]", "ldmatrix.x8"),
    "warps": ("warps: [3]", "warps"),
    "in flight": ("in_flight: [16]", "in_flight"),
    "type": ("target_cycles: long", "target_cycles"),
    "twice": ("instructions: [mma.f16, mma.f16]", "twice"),
}


@pytest.mark.parametrize(("text", "expected"), CONFIGS.values(), ids=CONFIGS)
def test_bad_config_names_file_and_key(text: str, expected: str, edge: Edge, tmp_path: Path) -> None:
    edge.refuses_config(text, expected, tmp_path)


def test_named_config_is_the_default_experiment() -> None:
    from stats.base.config import load_config

    loaded = load_config("instructions", InstructionsConfig)
    assert loaded.instructions == InstructionsConfig().instructions
    assert loaded.processes >= 2


def test_tables_and_figure_of_a_record(edge: Edge, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    made = make_record(InstructionsConfig())
    path, figure = written(made, tmp_path / "made.jsonl"), tmp_path / "made.png"
    assert edge.call("--record", str(path), "--figure", str(figure), "--format", "md") == 0
    out = capsys.readouterr().out
    assert "| ldmatrix.x4 | way1 | 4 | 29.00" in out
    assert "Published by others" in out
    assert figure.exists()


def test_a_figure_never_replaces_its_record(edge: Edge, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    record, figure = tmp_path / "made.jsonl", tmp_path / "made.png"
    record.write_text("a record\n")
    figure.symlink_to(record)
    assert edge.call("--record", str(record), "--figure", str(figure)) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"micro-bench: --figure {figure}: is one of the records; choose another file\n")
    assert record.read_text() == "a record\n"


@pytest.mark.parametrize("recorded", [True, False])
def test_a_figure_that_fails_leaves_stdout_empty_unless_the_table_would_be_lost(
    recorded: bool, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    made = make_record(InstructionsConfig())
    made.path = tmp_path / "made.jsonl" if recorded else None
    with pytest.raises(UserError, match=r"/proc/x\.png: cannot be written"):
        cli_instructions._show(made, "table", Path("/proc/x.png"))
    assert (capsys.readouterr().out == "") is recorded


def test_record_of_another_tool_and_unfinished_record_are_refused(
    edge: Edge, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    made = make_record(InstructionsConfig(instructions=["mma.f16"]))
    for name, header, cells, expected in (
        ("other", made.header.model_copy(update={"tool": "gemm-bench"}), made.cells, "a record of gemm-bench"),
        ("cut", made.header, made.cells[:3], "no process is complete"),
    ):
        with RecordWriter(tmp_path / name, header) as writer:
            for row in cells:
                writer.append(row)
        assert edge.call("--record", str(tmp_path / name)) == 2
        assert expected in capsys.readouterr().err


def test_help_needs_no_heavy_import() -> None:
    code = (
        "import sys, typer\n"
        "from micro.cli.instructions import register\n"
        "register(typer.Typer())\n"
        "heavy = {'torch', 'scipy', 'matplotlib', 'statsmodels', 'pandas'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).resolve().parents[3])
