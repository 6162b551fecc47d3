"""Which devices does CUDA itself see, asked of the driver (libcuda) without torch, a context or any change?

Only cuInit and questions of attributes: nothing is allocated and nothing runs. The trap: CUDA numbers devices after
CUDA_VISIBLE_DEVICES and NVML does not, so a device is known by its UUID; and a failing cuInit has reasons that its
number alone tells, so they are put in words here.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

# CUdevice_attribute of cuda.h.
_SM_COUNT, _COMPUTE_MAJOR, _COMPUTE_MINOR = 16, 75, 76
_SHARED_PER_SM, _SHARED_PER_BLOCK_OPTIN, _L2_BYTES = 81, 97, 38
# CUresult of cuda.h: what a failing cuInit means for whoever runs this, and the remedy.
_MEANING: Mapping[int, tuple[str, str]] = MappingProxyType(
    {
        3: ("the driver is not initialised", "load the kernel module (modprobe nvidia) or reboot"),
        34: ("libcuda is the stub of a toolkit, not a driver", "take the toolkit's stubs folder off LD_LIBRARY_PATH"),
        100: ("no CUDA device is visible", "check nvidia-smi -L and CUDA_VISIBLE_DEVICES"),
        101: (
            "a device of CUDA_VISIBLE_DEVICES does not exist",
            "name one of nvidia-smi -L",
        ),
        802: ("the system is not ready", "start nvidia-fabricmanager and wait for the GPUs"),
        803: ("the driver in the kernel is not that of libcuda", "reboot, or load the driver that was installed"),
        804: ("the driver is too old for this libcuda on this GPU", "update the driver, or remove cuda-compat"),
    }
)
_NO_DEVICE = 100


@dataclass(frozen=True)
class CudaDevice:
    """One device as CUDA numbers it; ``uuid`` is CUDA's own 16 bytes (of the instance, for MIG)."""

    index: int
    name: str
    uuid: bytes
    compute_capability: str
    sm_count: int
    shared_bytes_per_sm: int
    shared_bytes_per_block: int  # with the opt-in
    l2_bytes: int

    @property
    def arch(self) -> int:
        """80 for compute capability 8.0."""
        return int(self.compute_capability.replace(".", ""))


@dataclass(frozen=True)
class DriverError:
    """Why CUDA cannot be used: the number and its meaning; ``no_device`` when a driver is here and shows none."""

    number: int
    meaning: str
    remedy: str

    @property
    def no_device(self) -> bool:
        """Whether the driver works and only has no device to show."""
        return self.number == _NO_DEVICE


class CudaDriver:
    """libcuda, initialised; ``library`` is the opened library."""

    def __init__(self, library: Any) -> None:
        self._cuda = library

    def start(self) -> DriverError | None:
        """Initialise CUDA; None when it works."""
        number = int(self._cuda.cuInit(0))
        if number == 0:
            return None
        meaning, remedy = _MEANING.get(number, ("unknown to this suite", "look the number up in cuda.h"))
        return DriverError(number, meaning, remedy)

    def cuda_version(self) -> tuple[int, int]:
        """The newest CUDA that the driver serves, as (major, minor); (0, 0) where it does not say."""
        version = ctypes.c_int()
        if self._cuda.cuDriverGetVersion(ctypes.byref(version)) != 0:
            return 0, 0
        return version.value // 1000, version.value % 1000 // 10

    def count(self) -> int:
        """Devices after CUDA_VISIBLE_DEVICES; 0 where the driver does not say."""
        count = ctypes.c_int()
        return count.value if self._cuda.cuDeviceGetCount(ctypes.byref(count)) == 0 else 0

    def devices(self) -> list[CudaDevice]:
        """Every visible device; one that does not answer is left out."""
        return [found for found in (self._device(index) for index in range(self.count())) if found is not None]

    def _device(self, index: int) -> CudaDevice | None:
        handle, name, uuid = ctypes.c_int(), ctypes.create_string_buffer(256), (ctypes.c_ubyte * 16)()
        # The second version knows the UUID of a MIG instance; drivers before 11.4 have only the first.
        of_uuid = getattr(self._cuda, "cuDeviceGetUuid_v2", None) or self._cuda.cuDeviceGetUuid
        failed = (
            self._cuda.cuDeviceGet(ctypes.byref(handle), index)
            or self._cuda.cuDeviceGetName(name, len(name), handle)
            or of_uuid(ctypes.byref(uuid), handle)
        )
        if failed:
            return None

        def attribute(which: int) -> int:
            value = ctypes.c_int()
            return value.value if self._cuda.cuDeviceGetAttribute(ctypes.byref(value), which, handle) == 0 else 0

        return CudaDevice(
            index=index,
            name=name.value.decode(errors="replace"),
            uuid=bytes(uuid),
            compute_capability=f"{attribute(_COMPUTE_MAJOR)}.{attribute(_COMPUTE_MINOR)}",
            sm_count=attribute(_SM_COUNT),
            shared_bytes_per_sm=attribute(_SHARED_PER_SM),
            shared_bytes_per_block=attribute(_SHARED_PER_BLOCK_OPTIN),
            l2_bytes=attribute(_L2_BYTES),
        )


def cuda_driver() -> CudaDriver | None:
    """The driver of this machine; None where there is no libcuda."""
    try:
        return CudaDriver(ctypes.CDLL("libcuda.so.1"))
    except OSError:
        return None
