"""A stand-in for the module pynvml: records the calls that change clocks, and raises the real error classes.

It never touches a driver. ``refuse`` maps a function to the NVML error code (or the exception) that it raises;
``absent`` lists functions that this driver lacks, ``odd_limits`` clocks that it does not take. With ``log`` calls are
also appended to a file, for tests in which the process that called is gone.
"""

# ruff: noqa: N802 - the names are NVML's

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml

UUID = "GPU-00000000-1111-2222-3333-444444444444"
MIG_UUID = "MIG-aaaaaaaa-1111-2222-3333-444444444444"
PCI = "0000:3B:00.0"
WHOLE, INSTANCE = "gpu handle", "mig handle"
SM_CLOCKS = [1980, 1965, 1950, 1500, 1200]
MEMORY_CLOCKS = [3201, 2619]


class FakeNvml:
    """Looks like the module; ``calls`` holds the names and arguments of the calls that change something."""

    def __init__(
        self,
        *,
        refuse: dict[str, int | BaseException] | None = None,
        absent: tuple[str, ...] = (),
        odd_limits: tuple[int, ...] = (),
        mig_mode: bool = False,
        reasons: int = 0,
        pids: tuple[int, ...] = (),
        log: Path | None = None,
    ) -> None:
        self.refuse, self.absent, self.odd_limits = refuse or {}, absent, odd_limits
        self.mig_mode, self.reasons, self.pids, self.log = mig_mode, reasons, pids, log
        self.calls: list[tuple[str, tuple[int, ...]]] = []
        self.initialised = 0

    def __getattribute__(self, name: str) -> Any:
        if name.startswith(("NVML", "nvml")):
            if name in object.__getattribute__(self, "absent"):
                raise AttributeError(name)
            refuse = object.__getattribute__(self, "refuse")
            if name in refuse:
                return lambda *_: _raise(refuse[name])
            if not hasattr(type(self), name):
                # Constants and error classes are the real ones; a function that is not imitated must not be called.
                found = getattr(pynvml, name)
                return found if name.startswith("NVML") else _not_imitated(name)
        return object.__getattribute__(self, name)

    def _changed(self, name: str, *arguments: int) -> None:
        self.calls.append((name, arguments))
        if self.log is not None:
            with self.log.open("a") as file:
                file.write(f"{name} {' '.join(map(str, arguments))}".strip() + "\n")

    def nvmlInit(self) -> None:
        self.initialised += 1

    def nvmlShutdown(self) -> None:
        self.initialised -= 1

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        return {UUID: WHOLE, MIG_UUID: INSTANCE}.get(uuid) or _raise(pynvml.NVML_ERROR_NOT_FOUND)

    def nvmlDeviceGetHandleByPciBusId(self, pci: str) -> str:
        return WHOLE if pci.upper().endswith(PCI) else _raise(pynvml.NVML_ERROR_NOT_FOUND)

    def nvmlDeviceIsMigDeviceHandle(self, handle: str) -> int:
        return int(handle == INSTANCE)

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle: str) -> str:
        assert handle == INSTANCE
        return WHOLE

    def nvmlDeviceGetMigMode(self, handle: str) -> list[int]:
        return [int(self.mig_mode), int(self.mig_mode)]

    def nvmlDeviceSetGpuLockedClocks(self, handle: str, lowest: int, highest: int) -> None:
        assert handle == WHOLE
        if lowest in self.odd_limits:
            _raise(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        self._changed("lock_sm", lowest, highest)

    def nvmlDeviceResetGpuLockedClocks(self, handle: str) -> None:
        assert handle == WHOLE
        self._changed("reset_sm")

    def nvmlDeviceSetMemoryLockedClocks(self, handle: str, lowest: int, highest: int) -> None:
        self._changed("lock_memory", lowest, highest)

    def nvmlDeviceResetMemoryLockedClocks(self, handle: str) -> None:
        self._changed("reset_memory")

    def nvmlDeviceGetDefaultApplicationsClock(self, handle: str, kind: int) -> int:
        assert kind == pynvml.NVML_CLOCK_SM
        return 1500

    def nvmlDeviceGetSupportedMemoryClocks(self, handle: str) -> list[int]:
        return list(MEMORY_CLOCKS)

    def nvmlDeviceGetSupportedGraphicsClocks(self, handle: str, memory_mhz: int) -> list[int]:
        assert memory_mhz in MEMORY_CLOCKS
        return list(SM_CLOCKS)

    def nvmlDeviceGetTemperature(self, handle: str, sensor: int) -> int:
        assert sensor == pynvml.NVML_TEMPERATURE_GPU
        return 61

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:
        return 512_300

    def nvmlDeviceGetClockInfo(self, handle: str, kind: int) -> int:
        assert kind == pynvml.NVML_CLOCK_SM
        return 1755

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: str) -> int:
        return self.reasons

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: str) -> int:
        return self.reasons

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[SimpleNamespace]:
        return [SimpleNamespace(pid=pid, usedGpuMemory=None) for pid in self.pids]


def _raise(error: int | BaseException) -> Any:
    raise error if isinstance(error, BaseException) else pynvml.NVMLError(error)


def _not_imitated(name: str) -> Any:
    def refuse(*_: object) -> None:
        raise AssertionError(f"{name} is not imitated")

    return refuse
