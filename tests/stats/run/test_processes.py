"""Does a fresh process answer, and is every way in which it can fail to do so told apart? Does a signal only wake?"""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Iterator
from multiprocessing.connection import wait

import pytest

from stats.run.processes import FreshProcess, Interrupted, NoAnswer, ProcessDied, SignalWatch
from stats.run.worker import Facts
from tests.stand_in import dummy_arms

PAYLOAD = pickle.dumps(dummy_arms.plain)


@pytest.fixture
def watch() -> Iterator[SignalWatch]:
    with SignalWatch() as watch:
        yield watch


@pytest.fixture
def child(watch: SignalWatch) -> Iterator[FreshProcess]:
    child = FreshProcess(watch, with_main=False)
    yield child
    child.kill()


def test_answers_come_one_by_one_and_the_end_is_clean(child: FreshProcess) -> None:
    facts = child.request(PAYLOAD, 60)
    assert isinstance(facts, Facts)
    assert facts.arms == ("A", "B", "C")
    cell, started_s = child.request("B", 60)
    assert (cell["launches"], cell["values"]) == (10, {"calls": 1.0})
    assert started_s > 0
    assert child.finish(60) == ""
    assert not os.path.exists(f"/proc/{child.pid}")


def test_process_that_died_while_nobody_asked(child: FreshProcess) -> None:
    child.request(PAYLOAD, 60)
    os.kill(child.pid, signal.SIGKILL)
    wait([child._process.sentinel], 60)
    with pytest.raises(ProcessDied, match=r"^died by SIGKILL$"):
        child.request("A", 60)
    child.kill()
    child.kill()


def test_process_is_stopped_before_it_has_begun(watch: SignalWatch) -> None:
    child = FreshProcess(watch, with_main=False)
    child.kill()
    assert not os.path.exists(f"/proc/{child.pid}")


def test_no_answer_in_time(child: FreshProcess) -> None:
    with pytest.raises(NoAnswer, match="no answer within 0 s"):
        child.request(PAYLOAD, 0)


@pytest.fixture
def hangs_up() -> Iterator[None]:
    """SIGHUP ends a process, as it does without nohup: under nohup it is ignored, and a watch leaves that so."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hangs_up")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_is_noted_and_wakes_the_wait(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with SignalWatch() as watch:
        watch.check()
        assert wait([watch.fileno()], 0) == []
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), signal.SIGINT)  # a second one changes nothing
        assert wait([watch.fileno()], 60) == [watch.fileno()]
        with pytest.raises(Interrupted, match=number.name) as caught:
            watch.check()
        assert caught.value.number == number
    assert signal.getsignal(number) == before


def test_signal_ends_a_request(watch: SignalWatch, child: FreshProcess) -> None:
    child.request(PAYLOAD, 60)
    os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(Interrupted, match="SIGTERM"):
        child.request("A", 60)


def test_signals_that_flood_the_wake_up_pipe_do_not_block(watch: SignalWatch) -> None:
    for _ in range(70_000):  # a pipe holds 65,536 bytes
        watch._note(signal.SIGINT, None)
    assert watch.number == signal.SIGINT
