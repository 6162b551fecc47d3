"""What state is the GPU in, as far as NVML tells: temperature, power, clock, throttle reasons, other processes.

Everything here is best effort: no library, no driver, no permission or a figure that this chip lacks is a nan, never
an error, because a measurement in SM cycles needs none of it. The device is found by UUID or PCI id, never by
index: CUDA_VISIBLE_DEVICES renumbers CUDA's devices and not NVML's. The trap: CUDA writes a UUID without the prefix
that NVML wants, and in a container NVML may list our own process under a number that we do not know.
"""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

UNKNOWN_PROCESSES = -1

# NVML's bit mask (nvml.h, nvmlClocksEventReason*).
_REASONS: Mapping[int, str] = MappingProxyType(
    {
        0x001: "gpu_idle",
        0x002: "applications_clocks_setting",
        0x004: "sw_power_cap",
        0x008: "hw_slowdown",
        0x010: "sync_boost",
        0x020: "sw_thermal_slowdown",
        0x040: "hw_thermal_slowdown",
        0x080: "hw_power_brake_slowdown",
        0x100: "display_clock_setting",
        0x200: "board_limit",
        0x400: "reliability",
    }
)
# Reasons for a clock below the maximum that are no throttling: nothing ran, or somebody (the lock, too) set the clock.
IDLE_OR_SET_CLOCK = frozenset({"gpu_idle", "applications_clocks_setting", "display_clock_setting"})

_T = TypeVar("_T")


@dataclass(frozen=True)
class DeviceState:
    """One reading of the device; what could not be read is nan, and ``other_processes`` then −1."""

    temperature_c: float = math.nan
    power_w: float = math.nan
    sm_clock_mhz: float = math.nan
    throttle_reasons: tuple[str, ...] = ()
    other_processes: int = UNKNOWN_PROCESSES


def uuid_candidates(uuid: str | bytes) -> list[str]:
    """The forms under which NVML may know the device that CUDA calls ``uuid`` (16 bytes, bare, or with a prefix)."""
    if isinstance(uuid, bytes):
        digits = uuid.hex()
        uuid = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    text = uuid.strip()
    if text.upper().startswith(("GPU-", "MIG-")):
        return [text[:4].upper() + text[4:]]
    return [f"GPU-{text}", f"MIG-{text}"]


class Gpu:
    """One device as NVML sees it. ``handle`` answers questions of clocks; for a MIG instance that is its whole GPU."""

    def __init__(self, nvml: Any, handle: Any, *, is_mig: bool) -> None:
        self.nvml = nvml
        self.handle = handle
        self.is_mig = is_mig

    def ask(self, function: str, *arguments: Any, missing: _T, convert: Callable[[Any], _T]) -> _T:
        """``convert(nvml.function(handle, *arguments))``, or ``missing`` where NVML refuses or lacks the function."""
        try:
            return convert(getattr(self.nvml, function)(self.handle, *arguments))
        except (self.nvml.NVMLError, AttributeError, TypeError, ValueError, OSError):
            return missing

    def state(self, own_pids: Collection[int] = ()) -> DeviceState:
        """Read the device now. ``own_pids``: processes of this run, which are no others."""
        nvml = self.nvml
        current = "nvmlDeviceGetCurrentClocksEventReasons"
        if not hasattr(nvml, current):
            current = "nvmlDeviceGetCurrentClocksThrottleReasons"  # nvidia-ml-py before 12.535
        return DeviceState(
            temperature_c=self._number("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
            power_w=self._number("nvmlDeviceGetPowerUsage") / 1e3,  # NVML gives milliwatts
            sm_clock_mhz=self._number("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
            throttle_reasons=self.ask(current, missing=(), convert=_throttle_reasons),
            other_processes=self.other_processes(own_pids),
        )

    def _number(self, function: str, *arguments: Any) -> float:
        return self.ask(function, *arguments, missing=math.nan, convert=float)

    def other_processes(self, own_pids: Collection[int] = ()) -> int:
        """Number of compute processes on the device besides ours; −1 where NVML does not tell.

        One entry is taken to be the measuring process even if no number matches: inside a container the numbers
        are those of another namespace.
        """

        def others(processes: Any) -> int:
            pids = [int(process.pid) for process in processes]
            return max(0, len(pids) - max(1, sum(pid in own_pids for pid in pids)))

        return self.ask("nvmlDeviceGetComputeRunningProcesses", missing=UNKNOWN_PROCESSES, convert=others)

    def close(self) -> None:
        """Let go of NVML."""
        try:
            self.nvml.nvmlShutdown()
        except (self.nvml.NVMLError, OSError):
            return


def _throttle_reasons(mask: Any) -> tuple[str, ...]:
    bits = int(mask)
    named = [name for bit, name in _REASONS.items() if bits & bit and name not in IDLE_OR_SET_CLOCK]
    unnamed = bits & ~sum(_REASONS)
    return (*named, *([f"unnamed_0x{unnamed:x}"] if unnamed else []))


def open_gpu(uuid: str | bytes | None = None, pci_bus_id: str | None = None, *, nvml: Any = None) -> Gpu | str:
    """The device with this CUDA or NVML UUID or PCI id (``0000:3b:00.0``), or the reason why NVML cannot serve it.

    ``nvml`` stands in for the module ``pynvml``. Without UUID and PCI id there is no device to speak of.
    """
    if uuid is None and pci_bus_id is None:
        return "no GPU named"
    if nvml is None:
        try:
            nvml = importlib.import_module("pynvml")
        except ImportError:
            return "nvidia-ml-py is not installed"
    try:
        nvml.nvmlInit()
    except (nvml.NVMLError, OSError) as error:
        return f"NVML: {error}"
    # CUDA may have been told to number by PCI id while NVML knows no such UUID (an old MIG form): try both.
    attempts = [("nvmlDeviceGetHandleByUUID", form) for form in (uuid_candidates(uuid) if uuid is not None else [])]
    attempts += [("nvmlDeviceGetHandleByPciBusId", pci_bus_id)] if pci_bus_id is not None else []
    for function, name in attempts:
        try:
            handle = getattr(nvml, function)(name)
        except (nvml.NVMLError, AttributeError, OSError):
            continue
        return _gpu_of(nvml, handle)
    named = " or ".join(name for _, name in attempts)
    Gpu(nvml, None, is_mig=False).close()
    return f"NVML knows no device {named}"


def _gpu_of(nvml: Any, handle: Any) -> Gpu:
    """The whole GPU behind ``handle``, which may be a MIG instance or a GPU cut into such."""
    found = Gpu(nvml, handle, is_mig=False)
    if found.ask("nvmlDeviceIsMigDeviceHandle", missing=False, convert=bool):
        parent = found.ask("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", missing=handle, convert=lambda whole: whole)
        return Gpu(nvml, parent, is_mig=True)
    enabled = found.ask("nvmlDeviceGetMigMode", missing=False, convert=lambda modes: bool(modes[0]))
    return Gpu(nvml, handle, is_mig=enabled)


def in_container() -> bool:
    """Whether this process seems to run in a container, where clocks are usually not ours to set."""
    return os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv")
