"""What outputs say of a run in the real world: clocks that were not held or not lockable, interruptions, full disks."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gemm.ladder.results import heading_lines as gemm_heading
from micro.bench.read_path.results import heading_lines as micro_heading
from stats.analysis.compare import analyse
from stats.analysis.compare_text import comparison_rows, render_analysis
from stats.base.errors import UserError
from stats.base.tables import to_json
from stats.record.attempts import final_cells
from stats.record.clock_check import judged_label
from stats.record.reader import read_record
from stats.record.schema import ClockState, Record
from stats.report import html
from stats.report.readme import read_pages, write_pages
from stats.report.show import shown
from stats.report.source import Library
from stats.run.spec import TrialSpec
from stats.run.trials import run_trials
from tests.makers.page_files import put_pages
from tests.makers.report_records import gemm_record, micro_record, written
from tests.stand_in import dummy_arms
from tests.stats.run.test_interruption import WARMUP_CELLS, comparable, finish, session_of, start, wait_until_gone

LOCKED = ClockState(requested="lock", effective="lock", locked_sm_mhz=1980, label="locked at 1980 MHz SM")
REFUSED = ClockState(
    requested="auto", effective="monitor", label="monitor (lock refused: Insufficient Permissions: needs root)"
)

ARMS = "tables: {arms: {record: run.jsonl, table: arms}}\n"

# Clocks


def every_text(record: Record, folder: Path) -> dict[str, str]:
    """The record in every form that quotes its clocks."""
    path = written(record, folder / "run.jsonl")
    library = Library()
    source = library.source(path)
    found = {
        "analysis": render_analysis(analyse(record), "table", (0, "")),
        "analysis as JSON": render_analysis(analyse(record), "json", (0, "")),
        "show": shown(source, "table"),
        "caption": source.caption,
    }
    if record.header.tool == "gemm-bench":
        found["heading"] = "\n".join(gemm_heading(record))
        put_pages(folder, ARMS, readme="{{ table('arms') }}\n")
        write_pages(read_pages(folder))
        found["README"] = (folder / "README.md").read_text()
    else:
        found["heading"] = "\n".join(micro_heading(record))
    return {name: " ".join(text.split()) for name, text in found.items()}  # a terminal's width breaks lines


@pytest.mark.parametrize("make", [gemm_record, micro_record])
def test_a_lock_that_did_not_hold_is_said_in_every_output(make: Callable[..., Record], tmp_path: Path) -> None:
    arm = "A1" if make is gemm_record else "A1:load"
    record = make(processes=3, blocks=4, clocks=LOCKED, clock_mhz={arm: 1900.0})
    assert judged_label(record).startswith("locked at 1980 MHz SM: NOT HELD, 12 of ")
    for name, text in every_text(record, tmp_path).items():
        assert "NOT HELD" in text, name


def test_a_lock_that_did_not_hold_is_said_in_the_html_page(tmp_path: Path) -> None:
    record = gemm_record(processes=3, blocks=4, clocks=LOCKED, clock_mhz={"A1": 1900.0})
    source = Library().source(written(record, tmp_path / "run.jsonl"))
    assert html._overview([source]).count("NOT HELD") == 1  # without drawing the figures below it


def test_a_lock_that_held_is_said_in_every_output(tmp_path: Path) -> None:
    record = gemm_record(processes=3, blocks=4, clocks=LOCKED, clock_mhz={"A1": 1980.0})
    for name, text in every_text(record, tmp_path).items():
        assert "locked at 1980 MHz SM: HELD" in text, name


def test_a_refused_lock_is_said_in_every_output(tmp_path: Path) -> None:
    record = gemm_record(processes=3, blocks=4, clocks=REFUSED)
    for name, text in every_text(record, tmp_path).items():
        assert "lock refused: Insufficient Permissions" in text, name


def test_a_lock_without_a_measured_clock_is_not_verified() -> None:
    record = gemm_record(processes=3, blocks=4, clocks=LOCKED)
    record.cells[:] = [replace(cell, clock_mhz=float("nan")) for cell in record.cells]
    assert judged_label(record) == "locked at 1980 MHz SM; NOT VERIFIED, no measured clock"


# Interruptions


def test_kill_9_and_resume_give_the_analysis_of_an_uninterrupted_run(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    whole.mkdir()
    cut.mkdir()
    assert finish(start(whole, 4))[0] == 0
    runner = start(cut, 4, WARMUP_CELLS + 7, "SIGKILL")
    assert finish(runner)[0] == -9
    wait_until_gone(session_of(runner))
    torn = cut / "a.jsonl"
    torn.write_bytes(torn.read_bytes() + b'{"kind":"cell","process":0,"blo')  # and the write itself was cut
    assert read_record(torn).torn_line is not None
    assert finish(start(cut, 4))[0] == 0
    resumed, uninterrupted = read_record(torn), read_record(whole / "a.jsonl")
    assert resumed.torn_line is None
    assert comparable(final_cells(resumed)) == comparable(final_cells(uninterrupted))
    assert to_json(comparison_rows(analyse(resumed))) == to_json(comparison_rows(analyse(uninterrupted)))


def test_a_kernel_that_faults_stops_the_run_with_its_name_and_keeps_what_was_measured(tmp_path: Path) -> None:
    out = tmp_path / "a.jsonl"
    spec = TrialSpec(tool="test", reference="A", processes=1, blocks=4, warmup_blocks=0)
    # What a fault looks like from outside: the arm raises, or, with a sticky error, its process dies.
    for how, says in (("bench", "^arm B: 1200 GB/s"), ("SIGSEGV", r"^arm B \(process 0, block 2\): died by SIGSEGV")):
        out.unlink(missing_ok=True)
        with pytest.raises(dummy_arms.BenchError, match=says):
            run_trials(spec, partial(dummy_arms.misbehaving, how), out=out)
        record = read_record(out)
        assert [cell.arm for cell in record.cells].count("B") == 2
        assert record.events[-1].event == "failed"


# Full disks


def test_a_disk_that_is_full_leaves_the_old_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(gemm_record(processes=3, blocks=4), tmp_path / "run.jsonl")
    readme = put_pages(tmp_path, ARMS, readme="{{ table('arms') }}\n") / "README.md"
    readme.write_text("old\n")

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    found = read_pages(tmp_path)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"README\.md: cannot be written \(No space left on device\); it is as it was"):
        write_pages(found)
    assert readme.read_text() == "old\n"
    assert {path.name for path in tmp_path.iterdir()} == {"run.jsonl", "README.md", "docs"}


def test_a_record_of_nothing_is_valid_json_everywhere(tmp_path: Path) -> None:
    reasons = {(process, block): "hw_slowdown" for process in range(3) for block in range(4)}
    record = gemm_record(processes=3, blocks=4, throttled=reasons)
    text = render_analysis(analyse(record), "json", (2, "0 accepted blocks"))
    assert "NaN" not in text
    assert json.loads(text)["exit_status"] == 2
