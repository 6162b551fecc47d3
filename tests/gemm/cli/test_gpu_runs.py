"""Whole runs from the command to the table and the record; each fresh process has a GPU made of NumPy of its own."""

from __future__ import annotations

import functools
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from tests.stand_in.gpu import stand_in_gpu

pytestmark = pytest.mark.torch

# Whole runs: the factory installs the stand-in in its fresh process


def on_stand_in(module: str, name: str, *arguments: Any, **options: Any) -> Any:
    """A factory that runs another one on the stand-in GPU of its own process, which lives as long as that process."""
    stand_in = stand_in_gpu()
    stand_in.__enter__()
    _kept.append(stand_in)
    return getattr(importlib.import_module(module), name)(*arguments, **options)


_kept: list[Any] = []


def stand_in_for(monkeypatch: pytest.MonkeyPatch, module: str, name: str) -> None:
    monkeypatch.setattr(f"{module}.{name}", functools.partial(on_stand_in, module, name))


def test_micro_bench_from_command_to_table_and_record(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from micro.cli import app as cli
    from stats.record.reader import read_record

    stand_in_for(monkeypatch, "micro.bench.read_path.arms", "micro_arms")
    monkeypatch.setattr("micro.gpu.device.cuda_device_count", lambda: 1)
    out = tmp_path / "run.jsonl"
    arguments = ["--variants", "A1,A3", "--processes", "1", "--launches", "1", "--out", str(out), "--format", "json"]
    monkeypatch.setattr("sys.argv", ["micro-bench", *arguments])
    (tmp_path / "small.yaml").write_text("blocks: 2\nwarmup_blocks: 0\nloops: 3\nswizzle: 'on'\n")
    monkeypatch.setattr("sys.argv", ["micro-bench", "--config", str(tmp_path / "small.yaml"), *arguments])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    told = capsys.readouterr()
    assert stop.value.code == 0, told.err
    found = json.loads(told.out)
    assert found["measured"] is True
    assert any("clocks: monitor" in line for line in found["heading"])  # the label of the clocks is in every output
    record = read_record(out)
    assert record.header.device is not None
    assert record.header.device.name == "Stand-in GPU"
    assert {cell.arm for cell in record.cells} >= {"A1:load", "A3:load", "A3:load.twin"}


def test_gemm_bench_from_command_to_table_and_record(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from gemm.cli import app as cli
    from stats.record.reader import read_record

    stand_in_for(monkeypatch, "gemm.ladder.arms", "gemm_arms")
    monkeypatch.setattr("micro.gpu.device.cuda_device_count", lambda: 1)
    out = tmp_path / "run.jsonl"
    (tmp_path / "small.yaml").write_text(
        "variants: [A1, A3]\nshapes: [128x128x32]\nprocesses: 2\nblocks: 2\nwarmup_blocks: 0\nlaunches: 1\n"
    )
    for fmt in ("table", "md", "json"):
        arguments = ["--config", str(tmp_path / "small.yaml"), "--out", str(out), "--resume", "--format", fmt]
        monkeypatch.setattr("sys.argv", ["gemm-bench", *arguments])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        told = capsys.readouterr()
        assert stop.value.code == 0, told.err
        assert "monitor" in told.out  # the label of the clocks is in every output
    assert json.loads(told.out)["comparisons"]
    assert len(read_record(out).cells) == 2 * 2 * 4  # resumed, not run again
