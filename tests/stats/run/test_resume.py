"""A run that ended early is continued: finished processes stay, torn lines go, another run is refused by its field."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stats.base.errors import BenchError, UserError
from stats.record.attempts import complete_attempts, final_cells
from stats.record.reader import read_record
from stats.record.schema import CellRow, Header, ProcessRow, SkipRow
from stats.run.trials import run_trials
from tests.makers.trial_runs import NO_DRIVER, ONE, SPEC, Listener
from tests.stand_in import dummy_arms


def without_start(cells: list[CellRow]) -> list[CellRow]:
    """Cells without what differs from run to run; figures that are nan would never be equal."""
    return [
        replace(cell, started_s=0.0, temperature_c=0.0, power_w=0.0, nvml_clock_mhz=0.0, attempt=0) for cell in cells
    ]


def test_resume_after_a_failure_gives_the_same_cells(tmp_path: Path) -> None:
    whole = run_trials(replace(SPEC, processes=3), partial(dummy_arms.plain, ("A", "B")))
    out = tmp_path / "a.jsonl"
    once = partial(dummy_arms.misbehaving, "value", 3, tmp_path / "failed")
    with pytest.raises(BenchError, match="arm B"):
        run_trials(replace(SPEC, processes=3), once, out=out)
    listener = Listener()
    resumed = run_trials(replace(SPEC, processes=3), once, out=out, resume=True, progress=listener)
    assert listener.said == [f"{out}: 0 of 3 processes are finished"]
    assert complete_attempts(resumed) == {0: 1, 1: 0, 2: 0}
    assert [event.event for event in resumed.events if event.process == -1] == ["resumed", "complete"]
    assert len(resumed.cells) > len(whole.cells)  # the first attempt's cells stay
    assert without_start(final_cells(resumed)) == without_start(whole.cells)
    assert repr(final_cells(read_record(out))) == repr(final_cells(resumed))


def test_resume_keeps_finished_processes_and_cuts_a_torn_line(tmp_path: Path) -> None:
    out = tmp_path / "a.jsonl"
    run_trials(SPEC, dummy_arms.plain, out=out)
    whole = read_record(out)
    lines = out.read_bytes().splitlines(keepends=True)
    out.write_bytes(b"".join(lines[:17]) + lines[17][:40])
    listener = Listener()
    resumed = run_trials(SPEC, dummy_arms.plain, out=out, resume=True, progress=listener)
    assert listener.said == [f"{out}: line 18 was cut off and is dropped", f"{out}: 1 of 2 processes are finished"]
    assert listener.total == (24, 12)
    assert len(listener.rows) == 12
    assert complete_attempts(resumed) == {0: 0, 1: 1}
    assert without_start(final_cells(read_record(out))) == without_start(whole.cells)


def test_resume_of_a_finished_record_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "a.jsonl"
    run_trials(ONE, dummy_arms.plain, out=out)
    before = out.read_bytes()
    monkeypatch.setattr("stats.run.trials.FreshProcess", None)
    assert len(run_trials(ONE, dummy_arms.plain, out=out, resume=True).cells) == 12
    assert out.read_bytes() == before
    out.write_bytes(b"".join(before.splitlines(keepends=True)[:-2]))  # killed after its last cell
    assert run_trials(ONE, dummy_arms.plain, out=out, resume=True).events[-1] == ProcessRow(-1, "complete")
    assert read_record(out).events[-1] == ProcessRow(-1, "complete")


def test_resume_of_nothing_starts_anew(tmp_path: Path) -> None:
    out = tmp_path / "a.jsonl"
    assert len(run_trials(ONE, dummy_arms.plain, out=out, resume=True).cells) == 12
    assert len(run_trials(replace(ONE, blocks=2), dummy_arms.plain, out=None, resume=True).cells) == 6


def interrupted_record(out: Path) -> Header:
    """A record of which the second process is missing."""
    spec = replace(SPEC, twin="A.twin", blocks=2)
    run_trials(replace(spec, processes=2), dummy_arms.with_facts, out=out, nvml=NO_DRIVER)
    lines = out.read_bytes().splitlines(keepends=True)
    out.write_bytes(b"".join(lines[:9]))
    return read_record(out).header


def test_resume_of_another_run_names_the_field(tmp_path: Path) -> None:
    out = tmp_path / "a.jsonl"
    header = interrupted_record(out)
    before = out.read_bytes()
    spec = replace(SPEC, twin="A.twin", blocks=2)
    cases: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({"seed": 2}, {}, "seed: the record has 1, this run 2"),
        ({"config": {"x": 1}}, {}, r"config\.x: the record has null, this run 1"),
        ({"blocks": 4}, {}, "blocks"),
        ({}, {"source_hash": "new"}, 'source_hash: the record has "abc", this run "new"'),
        ({}, {"uuid": "other"}, r"device\.uuid"),
        ({}, {"skipped": ()}, "arms"),
    ]
    for changes, facts, says in cases:
        with pytest.raises(UserError, match=f"^{says}"):
            run_trials(
                replace(spec, **changes),
                partial(dummy_arms.with_facts, **facts),
                out=out,
                resume=True,
                nvml=NO_DRIVER,
            )
        assert out.read_bytes() == before
    record = run_trials(spec, dummy_arms.with_facts, out=out, resume=True, nvml=NO_DRIVER)
    assert record.header == header
    assert record.skips == [SkipRow("D", "needs sm_100")]  # told once
    assert complete_attempts(record) == {0: 0, 1: 0}
