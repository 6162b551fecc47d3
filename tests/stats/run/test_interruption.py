"""What is left of a run that was interrupted: its record, the clocks, its processes? Real processes, real signals.

A signal is sent by an arm at a chosen cell, or when the journal of the arms has a chosen length: time decides nothing.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from stats.record.attempts import complete_attempts, final_cells
from stats.record.reader import read_record
from stats.record.schema import CellRow, Record
from stats.run.spec import TrialSpec
from stats.run.trials import run_trials
from tests.stand_in import dummy_arms

RUNNER = """
import os, signal, sys
from functools import partial
from pathlib import Path
from tests.stand_in import dummy_arms
from tests.stand_in.nvml import FakeNvml
from stats.run.trials import TrialSpec, run_trials
folder, blocks, strike_at, strike = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
# A background job or nohup would have these ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
spec = TrialSpec(tool="test", reference="A", twin="A.twin", processes=2, blocks=blocks, clocks="lock", seed=3)
run_trials(spec, partial(dummy_arms.journalled, folder / "journal", strike_at, strike), out=folder / "a.jsonl",
           resume=True, nvml=FakeNvml(log=folder / "nvml"))
"""
LOCKED = ["lock_sm 4294967041 4294967041", "lock_memory 3201 3201"]
RESTORED = [*LOCKED, "reset_memory", "reset_sm"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
WARMUP_CELLS = 2 * 3


def start(folder: Path, blocks: int, strike_at: int = 0, strike: str = "") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", RUNNER, str(folder), str(blocks), str(strike_at), strike],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(runner: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = runner.communicate(timeout=120)
    return runner.returncode, out, err


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that ended and that nobody has waited for is dead."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] not in ("Z", "X")


def wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 60
    while any(is_alive(pid) for pid in pids):
        assert time.monotonic() < deadline, f"still alive: {[pid for pid in pids if is_alive(pid)]}"
        time.sleep(0.01)


def session_of(runner: subprocess.Popen[str]) -> list[int]:
    """Every living process of the session that the runner leads."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and is_alive(int(entry.name)):
            try:
                if os.getsid(int(entry.name)) == runner.pid:
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def comparable(cells: list[CellRow]) -> list[CellRow]:
    return [replace(cell, started_s=0.0, attempt=0) for cell in cells]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Record:
    folder = tmp_path_factory.mktemp("whole")
    code, _, err = finish(start(folder, 4))
    assert code == 0, err
    record = read_record(folder / "a.jsonl")
    assert len(record.cells) == 2 * 4 * 3
    return record


@pytest.mark.parametrize(
    ("strike", "status"),
    [("SIGINT", -signal.SIGINT), ("SIGTERM", 143), ("SIGHUP", 129), ("group SIGINT", -signal.SIGINT)],
)
def test_signal_stops_the_run_and_resume_gives_the_same_analysis(
    strike: str, status: int, tmp_path: Path, uninterrupted: Record
) -> None:
    strike_at = WARMUP_CELLS + 4
    runner = start(tmp_path, 4, strike_at, strike)
    code, out, err = finish(runner)
    assert code == status, err
    assert out == ""
    # A child that got the signal, too, would print a traceback of its own.
    assert err.count("Traceback") == (1 if "SIGINT" in strike else 0)
    wait_until_gone(session_of(runner))  # multiprocessing's tracker ends a moment after its parent
    assert (tmp_path / "nvml").read_text().splitlines() == RESTORED
    record = read_record(tmp_path / "a.jsonl")
    assert record.torn_line is None
    last = record.events[-1]
    assert (last.process, last.event, last.attempt) == (0, "interrupted", 0)
    assert last.detail.startswith(f"{strike.removeprefix('group ')} at arm ")
    assert len(record.cells) in (3, 4)  # the cell in flight may be lost

    assert finish(start(tmp_path, 4))[0] == 0
    resumed = read_record(tmp_path / "a.jsonl")
    assert complete_attempts(resumed) == {0: 1, 1: 0}
    assert (tmp_path / "nvml").read_text().splitlines() == RESTORED * 2
    assert comparable(final_cells(resumed)) == comparable(uninterrupted.cells)


def test_exception_in_an_arm_restores_the_clocks(tmp_path: Path) -> None:
    script = RUNNER.replace("dummy_arms.journalled, folder", "dummy_arms.locked_and_failing, folder")
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path), "4", "0", ""],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert "BenchError: arm B (process 0, warm-up): ValueError: a fault" in done.stderr
    assert (tmp_path / "nvml").read_text().splitlines() == RESTORED


def test_kill_at_any_moment_loses_at_most_the_cell_in_flight(tmp_path: Path) -> None:
    moments = random.Random(20)
    for round_number in range(2):
        folder = tmp_path / str(round_number)
        folder.mkdir()
        journal, at_least = folder / "journal", moments.randrange(WARMUP_CELLS + 1, 400)
        runner = start(folder, 20_000)
        deadline = time.monotonic() + 60
        while not journal.exists() or journal.stat().st_size < at_least:
            assert runner.poll() is None, finish(runner)
            assert time.monotonic() < deadline
        processes = session_of(runner)
        os.kill(runner.pid, signal.SIGKILL)
        assert finish(runner)[0] == -signal.SIGKILL
        assert len(processes) >= 2  # the child was among them
        wait_until_gone(processes)
        record = read_record(folder / "a.jsonl")
        measured = journal.stat().st_size - WARMUP_CELLS
        # One in flight; the child may have measured no further, since it is asked for each cell.
        assert 0 <= measured - len(record.cells) <= 1


def test_kill_9_of_the_parent_ends_a_child_that_hangs_and_resume_goes_on(tmp_path: Path) -> None:
    runner = start(tmp_path, 4, WARMUP_CELLS + 5, "hang SIGKILL")
    assert finish(runner)[0] == -signal.SIGKILL
    wait_until_gone(session_of(runner))
    record = read_record(tmp_path / "a.jsonl")
    assert len(record.cells) == 4
    assert complete_attempts(record) == {}
    assert finish(start(tmp_path, 4))[0] == 0
    assert complete_attempts(read_record(tmp_path / "a.jsonl")) == {0: 1, 1: 0}


def test_ignored_hangup_stays_ignored(tmp_path: Path) -> None:
    # Under nohup the run goes on when the terminal closes.
    text = RUNNER.replace("signal.SIGHUP, signal.SIG_DFL", "signal.SIGHUP, signal.SIG_IGN")
    assert text != RUNNER
    done = subprocess.run(
        [sys.executable, "-c", text, str(tmp_path), "2", str(WARMUP_CELLS + 1), "SIGHUP"],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "struck").exists()
    assert len(complete_attempts(read_record(tmp_path / "a.jsonl"))) == 2


def test_child_that_hangs_in_a_cell_is_stopped_with_all_that_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    spec = TrialSpec(tool="test", reference="A", processes=1, blocks=2, warmup_blocks=0, cell_timeout_s=0.3)
    with pytest.raises(dummy_arms.BenchError, match=r"^arm A \(process 0, block 0\): no answer within 0.3 s"):
        run_trials(spec, partial(dummy_arms.leaves_a_child, pids))
    wait_until_gone([int(pid) for pid in pids.read_text().split()])


# Scripts of users

GUARDED = """
import sys
from pathlib import Path
from stats.run.trials import Cell, TrialSpec, run_trials

def factory():
    return {"a": lambda: Cell(100.0, 200.0, 1), "b": lambda: Cell(101.0, 202.0, 1)}

if __name__ == "__main__":
    spec = TrialSpec(tool="mine", reference="a", comparisons=[("a", "b")], processes=2, blocks=2)
    record = run_trials(spec, factory, out=Path(sys.argv[1]))
    print(len(record.cells))
"""


def script(folder: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = folder / "mine.py"
    path.write_text(text)
    return subprocess.run(
        [sys.executable, str(path), *arguments],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_factory_in_the_users_own_script(tmp_path: Path) -> None:
    done = script(tmp_path, GUARDED, str(tmp_path / "a.jsonl"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "8\n", "")
    assert len(final_cells(read_record(tmp_path / "a.jsonl"))) == 8


def test_script_without_a_guard_is_told_so(tmp_path: Path) -> None:
    text = GUARDED.replace('if __name__ == "__main__":', "if True:")
    done = script(tmp_path, text, str(tmp_path / "a.jsonl"))
    assert done.returncode == 1
    first_line = done.stderr.splitlines()[0]
    assert first_line.endswith('put the call under: if __name__ == "__main__":')
    assert "BenchError: factory: ended with status 1; nothing was recorded yet" in done.stderr
    assert not (tmp_path / "a.jsonl").exists()


def test_script_needs_no_guard_if_its_factory_lives_in_a_module(tmp_path: Path) -> None:
    text = """
import sys
from pathlib import Path
from tests.stand_in import dummy_arms
from stats.run.trials import TrialSpec, run_trials
print(len(run_trials(TrialSpec(tool="mine", reference="A", processes=1, blocks=2), dummy_arms.plain).cells))
"""
    done = script(tmp_path, text)
    assert (done.returncode, done.stdout, done.stderr) == (0, "6\n", "")


def test_factory_from_standard_input_is_refused_in_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-"],
        input=GUARDED.replace("sys.argv[1]", "'never.jsonl'"),
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert "UserError: factory: is defined in an interactive session" in done.stderr.splitlines()[-1]


def test_trials_import_nothing_heavy() -> None:
    text = "import sys, stats.run.trials, stats.base.config; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", text], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    heavy = {"scipy", "statsmodels", "matplotlib", "torch", "pandas", "typer", "rich", "pynvml"}
    assert heavy.isdisjoint(done.stdout.split())
