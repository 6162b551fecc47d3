"""Are clocks restored on every way out, is a refusal said, does the measured clock judge the lock? No GPU needed."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pynvml
import pytest

from stats.base.errors import UserError
from stats.record.clock_check import check_clocks
from stats.record.schema import ClockState
from stats.run import nvml as nvml_module
from stats.run.clocks import Clocks
from tests.stand_in.nvml import MIG_UUID, UUID, FakeNvml

LOCK = [("lock_sm", (pynvml.NVML_CLOCK_LIMIT_ID_TDP,) * 2), ("lock_memory", (3201, 3201))]
RESET = [("reset_memory", ()), ("reset_sm", ())]
NO_PERMISSION = pynvml.NVML_ERROR_NO_PERMISSION
NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED


def test_lock_at_base_is_restored_once_on_normal_exit() -> None:
    fake = FakeNvml()
    with Clocks("lock", uuid=UUID, nvml=fake) as clocks:
        assert fake.calls == LOCK
        assert clocks.state == ClockState(
            requested="lock",
            effective="lock",
            locked_memory_mhz=3201,
            label="locked at base SM clock, 3201 MHz memory",
        )
        assert clocks.warning is None
    assert fake.calls == LOCK + RESET
    assert fake.initialised == 0


def test_lock_at_a_chosen_frequency() -> None:
    fake = FakeNvml()
    with Clocks("auto", uuid=UUID, sm_mhz=1500, memory_mhz=2619, nvml=fake) as clocks:
        assert fake.calls == [("lock_sm", (1500, 1500)), ("lock_memory", (2619, 2619))]
        assert (clocks.state.locked_sm_mhz, clocks.state.locked_memory_mhz) == (1500, 2619)
        assert clocks.state.label == "locked at 1500 MHz SM, 2619 MHz memory"
    assert fake.calls[2:] == RESET


def test_restored_once_on_exception() -> None:
    fake = FakeNvml()
    with pytest.raises(RuntimeError, match="cell"), Clocks("lock", uuid=UUID, nvml=fake):
        raise RuntimeError("cell")
    assert fake.calls == LOCK + RESET


def test_monitor_changes_nothing() -> None:
    fake = FakeNvml()
    with Clocks("monitor", uuid=UUID, sm_mhz=1500, nvml=fake) as clocks:
        assert clocks.state.label == "monitor (clocks read, not changed)"
        assert clocks.sample().power_w == 512.3
    assert fake.calls == []
    assert fake.initialised == 0


@pytest.mark.parametrize("mode", ["lock", "auto"])
@pytest.mark.parametrize(
    ("code", "reason"),
    [(NO_PERMISSION, "Insufficient Permissions: setting clocks needs root"), (NOT_SUPPORTED, "Not Supported")],
)
def test_refused_lock_degrades_and_says_so(mode: str, code: int, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stats.run.clocks.in_container", lambda: False)
    fake = FakeNvml(refuse={"nvmlDeviceSetGpuLockedClocks": code})
    with Clocks(mode, uuid=UUID, nvml=fake) as clocks:  # type: ignore[arg-type]
        assert clocks.state.effective == "monitor"
        assert clocks.state.label == f"monitor (lock refused: {reason})"
        assert (clocks.warning is not None) == (mode == "lock")
        assert clocks.warning is None or reason in clocks.warning
        assert clocks.sample().temperature_c == 61.0
    assert fake.calls == []  # nothing was changed, so nothing is reset


def test_refusal_in_a_container_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stats.run.clocks.in_container", lambda: True)
    with Clocks("lock", uuid=UUID, nvml=FakeNvml(refuse={"nvmlDeviceSetGpuLockedClocks": NO_PERMISSION})) as clocks:
        assert "needs root, as in most containers" in clocks.state.label


@pytest.mark.parametrize(("uuid", "mig_mode"), [(MIG_UUID, False), (UUID, True)])
def test_mig_is_never_locked(uuid: str, mig_mode: bool) -> None:
    fake = FakeNvml(mig_mode=mig_mode)
    with Clocks("lock", uuid=uuid, nvml=fake) as clocks:
        assert "MIG: the clock belongs to the whole GPU" in clocks.state.label
        assert clocks.warning is not None
        assert clocks.sample().sm_clock_mhz == 1755.0
    assert fake.calls == []


def test_chip_without_symbolic_base_clock_takes_the_default_applications_clock() -> None:
    fake = FakeNvml(odd_limits=(pynvml.NVML_CLOCK_LIMIT_ID_TDP,))
    with Clocks("lock", uuid=UUID, nvml=fake) as clocks:
        assert fake.calls[0] == ("lock_sm", (1500, 1500))
        assert clocks.state.locked_sm_mhz == 1500
    assert fake.calls[-2:] == RESET


def test_memory_clock_that_cannot_be_locked_leaves_the_sm_lock() -> None:
    fake = FakeNvml(refuse={"nvmlDeviceSetMemoryLockedClocks": NOT_SUPPORTED})
    with Clocks("lock", uuid=UUID, nvml=fake) as clocks:
        assert clocks.state.label == "locked at base SM clock, memory clock not locked: Not Supported"
        assert clocks.warning is None  # nobody asked for a memory clock
    assert fake.calls == [LOCK[0], ("reset_sm", ())]
    with Clocks("lock", uuid=UUID, memory_mhz=2619, nvml=fake) as clocks:
        assert clocks.warning is not None
        assert "2619 MHz refused (Not Supported)" in clocks.warning
    fake = FakeNvml(absent=("nvmlDeviceSetMemoryLockedClocks", "nvmlDeviceGetSupportedMemoryClocks"))
    with Clocks("lock", uuid=UUID, nvml=fake) as clocks:
        assert clocks.state.label == "locked at base SM clock, memory clock not locked: not offered"


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (
            {"sm_mhz": 1490},
            r"SM clock of 1490 MHz is not offered by this GPU \(1200 to 1980 MHz\); nearest: 1200 or 1500",
        ),
        ({"memory_mhz": 9999}, "memory clock of 9999 MHz is not offered .* nearest: 2619 or 3201"),
    ],
)
def test_frequency_that_is_not_offered(wanted: dict[str, int], says: str) -> None:
    fake = FakeNvml()
    with pytest.raises(UserError, match=says), Clocks("lock", uuid=UUID, nvml=fake, **wanted):  # type: ignore[arg-type]
        raise AssertionError("unreachable")
    assert fake.calls == []
    assert fake.initialised == 0


def test_unknown_mode() -> None:
    with pytest.raises(UserError, match="clocks: 'fix' is not one of lock, monitor, auto"):
        Clocks("fix")  # type: ignore[arg-type]


def test_failing_restore_says_how_to_mend_it(capsys: pytest.CaptureFixture[str]) -> None:
    fake = FakeNvml(refuse={"nvmlDeviceResetGpuLockedClocks": pynvml.NVML_ERROR_GPU_IS_LOST})
    with Clocks("lock", uuid=UUID, nvml=fake):
        pass
    assert capsys.readouterr().err == "clocks could not be restored (GPU is lost); run: nvidia-smi -rgc -rmc\n"
    assert fake.calls == [*LOCK, ("reset_memory", ())]


def test_interruption_between_the_two_locks_restores() -> None:
    fake = FakeNvml(refuse={"nvmlDeviceSetMemoryLockedClocks": KeyboardInterrupt()})
    with pytest.raises(KeyboardInterrupt), Clocks("lock", uuid=UUID, nvml=fake):
        raise AssertionError("unreachable")
    assert fake.calls == [LOCK[0], *RESET]


# Ways out that end the process

_SCRIPT = """
import os, signal, sys
from pathlib import Path
from tests.stand_in.nvml import FakeNvml, UUID
from stats.run.clocks import Clocks
how, log = sys.argv[1], Path(sys.argv[2])
# A background job or nohup would have these ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
clocks = Clocks("lock", uuid=UUID, nvml=FakeNvml(log=log))
if how == "atexit":
    clocks.__enter__()
    sys.exit(3)
with clocks:
    os.kill(os.getpid(), getattr(signal, how))
    signal.pause()
"""


@pytest.mark.parametrize(
    ("how", "status"),
    [("SIGINT", -signal.SIGINT), ("SIGTERM", 143), ("SIGHUP", 129), ("atexit", 3)],
)
def test_restored_once_when_the_process_ends(how: str, status: int, tmp_path: Path) -> None:
    log = tmp_path / "calls"
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, how, str(log)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert log.read_text().split("\n") == [
        "lock_sm 4294967041 4294967041", "lock_memory 3201 3201", "reset_memory", "reset_sm", "",
    ]  # fmt: skip


def test_handlers_are_put_back_and_those_of_the_caller_are_left_alone() -> None:
    def callers(_number: int, _frame: object) -> None:
        raise AssertionError("no signal was sent")

    numbers = (signal.SIGTERM, signal.SIGHUP)
    at_first = [
        signal.signal(number, handler) for number, handler in zip(numbers, (signal.SIG_DFL, callers), strict=True)
    ]
    try:
        with Clocks("lock", uuid=UUID, nvml=FakeNvml()):
            assert signal.getsignal(signal.SIGTERM) not in (signal.SIG_DFL, callers)
            assert signal.getsignal(signal.SIGHUP) is callers
        assert [signal.getsignal(number) for number in numbers] == [signal.SIG_DFL, callers]
    finally:
        for number, handler in zip(numbers, at_first, strict=True):
            signal.signal(number, handler)


def test_outside_the_main_thread_there_are_no_handlers_but_the_clocks_are_restored() -> None:
    fake = FakeNvml()

    def use() -> None:
        with Clocks("lock", uuid=UUID, nvml=fake):
            pass

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert fake.calls == LOCK + RESET


def test_shutdown_that_fails_harms_nobody() -> None:
    fake = FakeNvml(refuse={"nvmlShutdown": pynvml.NVML_ERROR_UNKNOWN})
    with Clocks("monitor", uuid=UUID, nvml=fake) as clocks:
        pass
    assert math.isnan(clocks.sample().power_w)  # after the context there is nothing to read


def test_container_is_recognised_by_its_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    for present in ("/.dockerenv", "/run/.containerenv", ""):
        monkeypatch.setattr("stats.run.nvml.os.path.exists", lambda path, present=present: path == present)
        assert nvml_module.in_container() is bool(present)


# The measured clock decides


def locked(sm_mhz: int | None = 1980) -> ClockState:
    return ClockState(requested="lock", effective="lock", locked_sm_mhz=sm_mhz, label="locked at 1980 MHz SM")


def test_lock_that_holds() -> None:
    check = check_clocks(locked(), [1979.5, 1980.0, 1980.2, math.nan])
    assert (check.held, check.cells, check.cells_off) == (True, 3, 0)
    assert check.label == "locked at 1980 MHz SM: HELD (1980–1980 MHz measured)"


def test_lock_that_succeeds_but_does_not_hold() -> None:
    check = check_clocks(locked(), [1980.0] * 30 + [1755.0] * 2)
    assert check.held is False
    assert (check.lowest_mhz, check.highest_mhz, check.cells_off) == (1755.0, 1980.0, 2)
    assert check.label == (
        "locked at 1980 MHz SM: NOT HELD (1755–1980 MHz measured, 2 of 32 cells off by more than 1 %)"
    )


def test_clock_that_holds_elsewhere_is_not_held() -> None:
    assert check_clocks(locked(1500), [1980.0, 1980.0]).held is False


@pytest.mark.parametrize(("tolerance_percent", "held"), [(1.0, True), (0.1, False)])
def test_tolerance_decides(tolerance_percent: float, held: bool) -> None:
    assert check_clocks(locked(), [1970.0, 1980.0], tolerance_percent=tolerance_percent).held is held


def test_lock_at_an_unnumbered_base_clock_is_judged_by_its_own_median() -> None:
    assert check_clocks(locked(None), [1500.0, 1501.0, 1499.0]).held is True
    assert check_clocks(locked(None), [1500.0, 1501.0, 1400.0]).held is False


def test_nothing_locked_or_nothing_measured_is_neither() -> None:
    monitor = ClockState(requested="auto", effective="monitor", label="monitor (lock refused: Not Supported)")
    check = check_clocks(monitor, [1700.0, 1980.0])
    assert check.held is None
    assert check.label == "monitor (lock refused: Not Supported); 1700–1980 MHz measured"
    assert check_clocks(monitor, []).label == monitor.label
    unmeasured = check_clocks(locked(), [math.nan])
    assert (unmeasured.held, unmeasured.label) == (None, "locked at 1980 MHz SM; NOT VERIFIED, no measured clock")


@pytest.mark.parametrize("mode", ["lock", "auto"])
def test_a_shared_gpu_can_forbid_the_lock(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMEM_BENCH_NEVER_LOCK", "1")
    fake = FakeNvml()
    with Clocks(mode, uuid=UUID, nvml=fake) as clocks:
        assert clocks.state.label == "monitor (lock refused: SMEM_BENCH_NEVER_LOCK is set)"
    assert fake.calls == []


def test_nothing_is_locked_unless_asked() -> None:
    from stats.run.config import TrialConfig
    from stats.run.spec import TrialSpec

    assert TrialConfig().clocks == "monitor"
    assert TrialSpec(tool="t", reference="a").clocks == "monitor"
