"""Is the right GPU found, is each reading in its unit, and is an absent one nan alone? No GPU needed."""

from __future__ import annotations

import math
import sys

import pynvml
import pytest

from stats.run import nvml as nvml_module
from stats.run.clocks import Clocks
from stats.run.nvml import Gpu, open_gpu, uuid_candidates
from tests.stand_in import nvml as fake_nvml
from tests.stand_in.nvml import MIG_UUID, PCI, UUID, FakeNvml

NO_PERMISSION = pynvml.NVML_ERROR_NO_PERMISSION
NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED


@pytest.mark.parametrize(
    ("uuid", "forms"),
    [
        (UUID, [UUID]),
        (UUID.removeprefix("GPU-"), [UUID, UUID.replace("GPU-", "MIG-")]),
        (bytes.fromhex("00000000111122223333444444444444"), [UUID, UUID.replace("GPU-", "MIG-")]),
        ("mig-GPU-1/2/3", ["MIG-GPU-1/2/3"]),
    ],
)
def test_uuid_as_cuda_and_as_nvml_write_it(uuid: str | bytes, forms: list[str]) -> None:
    assert uuid_candidates(uuid) == forms


def test_device_is_found_by_uuid_of_either_form_or_pci_id() -> None:
    for uuid, pci, is_mig in (
        (UUID.removeprefix("GPU-"), None, False),
        (MIG_UUID.removeprefix("MIG-"), None, True),
        (None, "00000000:3b:00.0"[4:], False),
        ("GPU-unknown", PCI, False),
    ):
        found = open_gpu(uuid, pci, nvml=FakeNvml())
        assert isinstance(found, Gpu)
        assert (found.handle, found.is_mig) == (fake_nvml.WHOLE, is_mig)


def test_device_that_nvml_does_not_know() -> None:
    fake = FakeNvml()
    assert open_gpu("unknown", nvml=fake) == "NVML knows no device GPU-unknown or MIG-unknown"
    assert fake.initialised == 0
    assert open_gpu(nvml=fake) == "no GPU named"


def test_absent_or_failing_nvml_is_never_fatal(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeNvml(refuse={"nvmlInit": pynvml.NVML_ERROR_LIBRARY_NOT_FOUND})
    with Clocks("auto", uuid=UUID, nvml=fake) as clocks:
        assert clocks.state.label == "monitor (lock refused: NVML: NVML Shared Library Not Found)"
        assert math.isnan(clocks.sample().power_w)
    with Clocks("monitor", uuid=UUID, nvml=fake) as clocks:
        assert "no NVML readings" in clocks.state.label
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert open_gpu(UUID) == "nvidia-ml-py is not installed"


def gpu(fake: FakeNvml) -> Gpu:
    found = open_gpu(UUID, nvml=fake)
    assert isinstance(found, Gpu)
    return found


def test_readings_and_their_units() -> None:
    state = gpu(FakeNvml(reasons=0x4 | 0x40 | 0x1 | 0x2 | 0x8000, pids=(11, 12, 13))).state({11, 12})
    assert (state.temperature_c, state.power_w, state.sm_clock_mhz) == (61.0, 512.3, 1755.0)
    # Idle and a clock that somebody set are no throttling.
    assert state.throttle_reasons == ("sw_power_cap", "hw_thermal_slowdown", "unnamed_0x8000")
    assert state.other_processes == 1


@pytest.mark.parametrize(
    ("pids", "own", "others"),
    [
        ((), {1}, 0),
        ((1,), {1}, 0),
        ((4711,), {1}, 0),  # our own, under the number of another namespace
        ((4711, 4712), {1}, 1),
        ((1, 2, 3), {1, 2}, 1),
    ],
)
def test_other_processes(pids: tuple[int, ...], own: set[int], others: int) -> None:
    assert gpu(FakeNvml(pids=pids)).other_processes(own) == others


def test_each_missing_reading_is_nan_alone() -> None:
    functions = {
        "nvmlDeviceGetTemperature": "temperature_c",
        "nvmlDeviceGetPowerUsage": "power_w",
        "nvmlDeviceGetClockInfo": "sm_clock_mhz",
    }
    for function, name in functions.items():
        for fake in (FakeNvml(refuse={function: NOT_SUPPORTED}), FakeNvml(absent=(function,))):
            state = gpu(fake).state()
            assert [field for field in functions.values() if math.isnan(getattr(state, field))] == [name]
    fake = FakeNvml(refuse={"nvmlDeviceGetComputeRunningProcesses": NO_PERMISSION}, reasons=4)
    assert gpu(fake).state().other_processes == nvml_module.UNKNOWN_PROCESSES
    old = FakeNvml(absent=("nvmlDeviceGetCurrentClocksEventReasons",), reasons=4)
    assert gpu(old).state().throttle_reasons == ("sw_power_cap",)
    neither = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
    assert gpu(FakeNvml(absent=neither, reasons=4)).state().throttle_reasons == ()


def test_reason_names_are_those_of_the_bits_in_nvml() -> None:
    for name, bit in (
        ("gpu_idle", pynvml.nvmlClocksThrottleReasonGpuIdle),
        ("applications_clocks_setting", pynvml.nvmlClocksThrottleReasonApplicationsClocksSetting),
        ("sw_power_cap", pynvml.nvmlClocksThrottleReasonSwPowerCap),
        ("hw_slowdown", pynvml.nvmlClocksThrottleReasonHwSlowdown),
        ("sync_boost", pynvml.nvmlClocksThrottleReasonSyncBoost),
        ("sw_thermal_slowdown", pynvml.nvmlClocksThrottleReasonSwThermalSlowdown),
        ("hw_thermal_slowdown", pynvml.nvmlClocksThrottleReasonHwThermalSlowdown),
        ("hw_power_brake_slowdown", pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown),
        ("display_clock_setting", pynvml.nvmlClocksThrottleReasonDisplayClockSetting),
    ):
        assert nvml_module._REASONS[bit] == name
