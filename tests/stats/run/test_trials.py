"""Does the runner do what the record says: fresh processes, recorded orders, and errors with the arm's name?"""

from __future__ import annotations

import multiprocessing
import os
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pynvml
import pytest

from stats.base.errors import BenchError, UserError
from stats.record.attempts import complete_attempts, final_cells
from stats.record.reader import read_record
from stats.record.schema import CellRow, ProcessRow, Record, SkipRow
from stats.record.writer import RecordWriter
from stats.run.order import block_orders
from stats.run.trials import run_trials
from stats.run.worker import ArmSet
from tests.makers.trial_runs import NO_DRIVER, ONE, SPEC, Listener
from tests.stand_in import dummy_arms
from tests.stand_in.nvml import FakeNvml


def no_children_are_left() -> bool:
    return multiprocessing.active_children() == []


def test_every_arm_runs_once_a_block_in_the_recorded_order(tmp_path: Path) -> None:
    out, listener = tmp_path / "a.jsonl", Listener()
    record = run_trials(SPEC, dummy_arms.plain, out=out, progress=listener)
    arms = ("A", "B", "C")
    for process in range(2):
        orders = block_orders(arms, 4, seed=SPEC.seed, process=process)
        ran = [(cell.block, cell.position, cell.arm) for cell in record.cells if cell.process == process]
        assert ran == [(block, place, arm) for block, order in enumerate(orders) for place, arm in enumerate(order)]
        # The arms are made anew in each process, and the warm-up block counts as a call but is no cell.
        calls = [cell.values["calls"] for cell in record.cells if (cell.process, cell.arm) == (process, "B")]
        assert calls == [2.0, 3.0, 4.0, 5.0]
    assert {cell.launches for cell in record.cells} == {10}
    assert all(cell.started_s > 0 for cell in record.cells)
    assert [(event.process, event.event) for event in record.events] == [
        (0, "start"), (0, "end"), (1, "start"), (1, "end"), (-1, "complete"),
    ]  # fmt: skip
    again = read_record(out)
    assert repr(again.cells) == repr(record.cells)
    assert again.header == record.header
    assert listener.rows == record.cells
    assert listener.total == (24, 0)
    assert listener.ended == 1
    assert no_children_are_left()


def test_header_holds_what_the_factory_and_the_spec_know() -> None:
    spec = replace(ONE, twin="A.twin", margin_percent=0.3, config={"k": (1, 2)}, seed=11, l2_mode="flushed", blocks=2)
    record = run_trials(spec, dummy_arms.with_facts, nvml=NO_DRIVER)
    header = record.header
    assert header.device == dummy_arms.DEVICE
    assert [(arm.name, arm.static) for arm in header.arms] == [
        ("A", {"registers": 40}), ("A.twin", {}), ("B", {}), ("D", {}),
    ]  # fmt: skip
    assert record.skips == [SkipRow("D", "needs sm_100")]
    assert (header.source_hash, header.build_flags, header.workload) == ("abc", ["-O3"], {"m": 4096})
    assert header.software["torch"] == "2.9.9"
    assert header.software["python"]
    assert (header.twin, header.margin_percent, header.seed, header.l2_mode) == ("A.twin", 0.3, 11, "flushed")
    assert header.clocks.label.startswith("monitor (NVML: ")
    assert final_cells(record) == record.cells
    assert len(record.cells) == 6


def test_lock_and_what_else_runs_on_the_gpu_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stats.run.clocks.in_container", lambda: False)
    refusing = FakeNvml(
        refuse={"nvmlDeviceSetGpuLockedClocks": pynvml.NVML_ERROR_NO_PERMISSION}, pids=(1, 2), reasons=4
    )
    listener = Listener()
    spec = replace(ONE, blocks=2)
    record = run_trials(spec, dummy_arms.with_facts, clocks="lock", nvml=refusing, progress=listener)
    assert listener.said == [
        "clocks: lock refused (Insufficient Permissions: setting clocks needs root); "
        "going on with the clocks as they are, only monitored",
        "process 0: 1 other process(es) on the GPU; the figures may suffer",
    ]
    assert (record.header.clocks.requested, record.header.clocks.effective) == ("lock", "monitor")
    assert record.events[0].other_processes == 1
    for cell in record.cells:
        assert (cell.temperature_c, cell.power_w, cell.nvml_clock_mhz) == (61.0, 512.3, 1755.0)
        assert (cell.throttle_reasons, cell.other_processes) == (("sw_power_cap",), 1)


def test_seed_decides_the_order() -> None:
    orders = []
    for seed in (1, 2):
        record = run_trials(replace(ONE, seed=seed, blocks=6), dummy_arms.plain)
        orders.append([cell.arm for cell in record.cells])
    assert orders[0] != orders[1]


def test_arms_are_closed_in_reverse(tmp_path: Path) -> None:
    marks = tmp_path / "closed"
    run_trials(ONE, partial(dummy_arms.plain, ("A", "B"), marks))
    assert marks.read_text().split() == ["B", "A"]


def test_process_does_not_import_more_than_the_factory_needs(tmp_path: Path) -> None:
    listing = tmp_path / "modules"
    run_trials(ONE, partial(dummy_arms.modules_loaded, listing))
    loaded = set(listing.read_text().split())
    assert "tests.stand_in.dummy_arms" in loaded
    assert loaded.isdisjoint({"scipy", "statsmodels", "matplotlib", "torch", "typer", "rich", "numpy", "pytest"})


@pytest.mark.parametrize("how", ["user", "bench", "local"])
def test_bench_errors_of_an_arm_are_raised_unchanged(how: str, tmp_path: Path) -> None:
    expected = {
        "user": (UserError, "shape: m=0 is not positive; choose m >= 1"),
        "bench": (BenchError, "arm B: 1200 GB/s is above the peak"),
        "local": (BenchError, "only the child knows this class"),
    }[how]
    out = tmp_path / "a.jsonl"
    with pytest.raises(BenchError) as caught:
        run_trials(ONE, partial(dummy_arms.misbehaving, how), out=out)
    assert (type(caught.value), str(caught.value)) == expected
    assert "dummy_arms.py" in str(caught.value.__cause__)  # where it was raised
    failure = read_record(out).events[-1]
    assert (failure.event, failure.attempt) == ("failed", 0)
    assert expected[1] in failure.detail
    assert no_children_are_left()


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("value", "ValueError: a fault in two lines"),
        ("exit", "SystemExit: 7"),
        ("interrupt", "KeyboardInterrupt"),
        ("SIGSEGV", "died by SIGSEGV"),
        ("SIGKILL", "died by SIGKILL"),
        ("status", "ended with status 5"),
        ("hang", "no answer within 2 s"),
    ],
)
def test_other_failures_name_the_arm_and_keep_the_record(how: str, says: str, tmp_path: Path) -> None:
    out = tmp_path / "a.jsonl"
    spec = replace(ONE, cell_timeout_s=2.0 if how == "hang" else 60.0)
    with pytest.raises(BenchError) as caught:
        run_trials(spec, partial(dummy_arms.misbehaving, how, 4), out=out)
    assert not isinstance(caught.value, UserError)
    record = read_record(out)
    # Call 4 of arm B, after one warm-up, is block 2.
    kept = len(record.cells)
    assert str(caught.value) == f"arm B (process 0, block 2): {says}; the {kept} cells before it are kept in {out}"
    assert kept in (4, 5)
    assert record.events[-1].event == "failed"
    assert record.events[-1].detail == f"arm B (process 0, block 2): {says}"
    assert final_cells(record) == []
    assert no_children_are_left()


@pytest.mark.parametrize(("how", "says"), [("status", "ended with status 5"), ("hang", "did not end within 0.2 s")])
def test_process_that_ends_badly_after_its_last_cell_is_noted(
    how: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stats.run.trials._CLOSE_TIMEOUT_S", 0.2 if how == "hang" else 60.0)
    record = run_trials(replace(ONE, blocks=2), partial(dummy_arms.badly_closed, how))
    assert len(final_cells(record)) == 4  # the cells are good
    assert record.events[1].event == "end"
    assert record.events[1].detail.startswith(says)
    assert no_children_are_left()


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("nan", "neither time_ns nor sm_cycles was measured"),
        ("zero", "not positive"),
        ("launches", "a cell of 0 launches measures nothing"),
        ("infinite", "sm_cycles inf: not finite"),
        ("clock", "clock_mhz 0: neither nan nor"),
        ("int", "returned int instead of a Cell"),
    ],
)
def test_what_is_no_measurement_is_refused(how: str, says: str) -> None:
    with pytest.raises(BenchError, match=f"^arm B: .*{says}"):
        run_trials(ONE, partial(dummy_arms.misbehaving, how))


@pytest.mark.parametrize(
    ("how", "kind", "says"),
    [
        ("user", UserError, "^shape: m=0 is not positive"),
        ("value", BenchError, "^factory: ValueError: a fault in two lines; nothing was recorded yet$"),
        ("SIGKILL", BenchError, "^factory: died by SIGKILL; nothing was recorded yet$"),
        ("hang", BenchError, "^factory: no answer within 0.5 s; nothing"),
    ],
)
def test_a_factory_that_fails_leaves_no_record(how: str, kind: type, says: str, tmp_path: Path) -> None:
    out = tmp_path / "a.jsonl"
    spec = replace(ONE, start_timeout_s=0.5 if how == "hang" else 60.0)
    with pytest.raises(kind, match=says):
        run_trials(spec, partial(dummy_arms.failing_factory, how), out=out)
    assert not out.exists()


@pytest.mark.parametrize(
    ("changes", "factory", "says"),
    [
        ({"reference": "Z"}, dummy_arms.plain, "reference Z: no such arm; there are A, B, C"),
        ({"twin": "A.twin"}, dummy_arms.plain, r"twin A\.twin: no such arm"),
        ({"comparisons": [("A", "Z")]}, dummy_arms.plain, "comparisons: no arm Z; there are A, B, C"),
        ({"reference": "D"}, dummy_arms.with_facts, r"reference D: cannot run here \(needs sm_100\)"),
        ({}, dummy_arms.no_arms, "arms: none can run here; A: needs sm_100"),
        ({}, dummy_arms.not_callable, "arm A: int is not callable"),
        ({}, partial(dummy_arms.with_facts, skipped=("B",)), "arm B: offered and skipped at once"),
    ],
)
def test_arms_that_do_not_fit_the_spec(changes: dict[str, Any], factory: Any, says: str, tmp_path: Path) -> None:
    out = tmp_path / "a.jsonl"
    with pytest.raises(BenchError, match=says):
        run_trials(replace(ONE, **changes), factory, out=out)
    assert not out.exists()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"blocks": 3}, "blocks: 3 is not an even number"),
        ({"blocks": 0}, "blocks: 0 is not an even number"),
        ({"processes": 0}, "processes: 0 is below 1"),
        ({"warmup_blocks": -1}, "warmup_blocks: -1 is below 0"),
        ({"seed": -1}, "seed: -1 is below 0"),
        ({"margin_percent": 0.0}, "margin_percent: 0.0 is not a positive number"),
        ({"cell_timeout_s": float("inf")}, "cell_timeout_s: inf is not a positive number"),
        ({"start_timeout_s": float("nan")}, "start_timeout_s: nan is not a positive number"),
        ({"comparisons": [("A", "A")]}, "comparisons: A is compared with itself"),
    ],
)
def test_spec_that_makes_no_run(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        replace(SPEC, **changes)


def test_factory_that_cannot_travel() -> None:
    with pytest.raises(
        UserError, match=r"factory: cannot be sent to a fresh process .* use a function at the top level"
    ):
        run_trials(ONE, lambda: ArmSet(arms={}))


def test_record_that_cannot_be_written_stops_before_any_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr("stats.run.trials.FreshProcess", never)
    with pytest.raises(UserError, match="cannot be written"):
        run_trials(ONE, dummy_arms.plain, out=tmp_path / "absent" / "a.jsonl")
    (tmp_path / "a.jsonl").touch()
    with pytest.raises(UserError, match="exists already"):
        run_trials(ONE, dummy_arms.plain, out=tmp_path / "a.jsonl")
    with pytest.raises(UserError, match="empty"):
        run_trials(ONE, dummy_arms.plain, out=tmp_path / "a.jsonl", resume=True)


def test_disk_that_fills_up_in_mid_run_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "a.jsonl"
    whole = RecordWriter.append

    def fills_up(self: RecordWriter, row: CellRow | SkipRow | ProcessRow) -> None:
        if isinstance(row, CellRow) and row.block == 1:
            assert self._fd is not None
            full = os.open("/dev/full", os.O_WRONLY)
            os.dup2(full, self._fd)
            os.close(full)
        whole(self, row)

    monkeypatch.setattr(RecordWriter, "append", fills_up)
    with pytest.raises(UserError, match=r"writing failed \(No space left on device\); the rows before it are kept"):
        run_trials(ONE, dummy_arms.plain, out=out)
    assert {cell.block for cell in read_record(out).cells} == {0}
    assert no_children_are_left()


def test_the_runner_works_outside_the_main_thread() -> None:
    found: list[Record] = []
    thread = threading.Thread(target=lambda: found.append(run_trials(replace(ONE, blocks=2), dummy_arms.plain)))
    thread.start()
    thread.join(60)
    assert len(found[0].cells) == 6


def test_sources_that_change_during_the_run_stop_it(tmp_path: Path) -> None:
    out = tmp_path / "a.jsonl"
    with pytest.raises(UserError, match=r'^source_hash: the record has "one", this run "two"'):
        run_trials(SPEC, partial(dummy_arms.changing, tmp_path / "first"), out=out)
    assert complete_attempts(read_record(out)) == {0: 0}
    assert no_children_are_left()


def test_the_next_process_imports_while_this_one_measures_and_is_as_fresh() -> None:
    spec = replace(ONE, processes=3, preload=("wave", "no_such_module_here"))
    record = run_trials(spec, dummy_arms.which_process, nvml=NO_DRIVER)
    pids = {cell.process: cell.values["pid"] for cell in record.cells}
    assert len(set(pids.values())) == 3
    assert all(cell.values["has_wave"] == 1.0 for cell in record.cells)
    assert no_children_are_left()


def test_a_process_that_waits_ends_with_a_run_that_fails() -> None:
    spec = replace(ONE, processes=3, preload=("wave",))
    with pytest.raises(BenchError, match="above the peak"):
        run_trials(spec, partial(dummy_arms.misbehaving, "bench", 4), nvml=NO_DRIVER)
    assert no_children_are_left()
