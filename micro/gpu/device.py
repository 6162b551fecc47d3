"""Is there a GPU, which one is it, and what can it not exceed?

The count comes from the driver itself (libcuda, no torch), so that a machine without a GPU pays for no import. The
limits are physical: a measurement above one is wrong, not fast.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from micro.gpu.cuda_driver import cuda_driver
from stats.base.errors import UserError
from stats.record.schema import Device

if TYPE_CHECKING:
    import torch


SHARED_BYTES_PER_CLK = 128  # per SM: 32 banks of 4 bytes (CUDA C++ Programming Guide, "Shared Memory", 8.0 to 9.0)

# Dense bf16 multiply-adds per clock and SM with fp32 accumulation, the highest that any instruction reaches: NVIDIA
# whitepapers of A100 (1024), GA102 (512), Ada (512), H100 (2048, reached by wgmma only).
_FMA_PER_CLK_PER_SM = {(8, 0): 1024, (8, 6): 512, (8, 7): 1024, (8, 9): 512, (9, 0): 2048}
_FMA_PER_MMA = 16 * 8 * 16


def cuda_device_count() -> int:
    """Devices that CUDA can use, after CUDA_VISIBLE_DEVICES; 0 without a driver."""
    driver = cuda_driver()
    return driver.count() if driver is not None and driver.start() is None else 0


def driver_trouble() -> str | None:
    """Why a driver that is here serves no device, with the remedy; None without a driver or where all is well."""
    driver = cuda_driver()
    error = driver.start() if driver is not None else None
    if error is None or error.no_device:
        return None
    return f"the driver is here but does not start (cuInit gives {error.number}: {error.meaning}); {error.remedy}"


def require_gpu(device_index: int) -> None:
    """Check device index and torch before any work. Raises UserError: what is missing and the remedy."""
    count = cuda_device_count()
    if count == 0:
        why = driver_trouble() or "driver absent, or CUDA_VISIBLE_DEVICES is empty"
        raise UserError(f"no CUDA device is visible ({why}); see micro-bench doctor")
    if not 0 <= device_index < count:
        raise UserError(f"--device {device_index}: CUDA sees {count} device(s), numbered from 0")
    if importlib.util.find_spec("torch") is None:
        raise UserError("a CUDA device is here but torch is not installed; pip install 'smem-bench[gpu]'")


def describe_device(index: int) -> tuple[Device, torch.cuda._CudaDeviceProperties]:
    """The device as records name it, and torch's properties. Raises UserError below sm_80."""
    import torch

    torch.cuda.set_device(index)
    properties: Any = torch.cuda.get_device_properties(index)
    if (properties.major, properties.minor) < (8, 0):
        raise UserError(
            f"{properties.name} is sm_{properties.major}{properties.minor}: the kernels need sm_80 or newer (bf16 mma)"
        )
    uuid = str(getattr(properties, "uuid", "unknown"))
    device = Device(
        name=properties.name,
        uuid=uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}",
        compute_capability=f"{properties.major}.{properties.minor}",
        sm_count=properties.multi_processor_count,
        driver=_driver_version(),
    )
    return device, properties


def _driver_version() -> str:
    try:
        import pynvml

        pynvml.nvmlInit()
        version = pynvml.nvmlSystemGetDriverVersion()
        return version if isinstance(version, str) else version.decode()
    except Exception:  # NVML is a courtesy here: whatever it raises, the run goes on without the version
        return "unknown"


def mma_floor_cycles_per_kstep(compute_capability: str, mma_per_kstep: int = 16) -> float | None:
    """Least SM cycles for the mma of one warp k-step; None where no published rate is on file."""
    major, minor = (int(part) for part in compute_capability.split("."))
    rate = _FMA_PER_CLK_PER_SM.get((major, minor))
    return None if rate is None else mma_per_kstep * _FMA_PER_MMA / rate


def shared_bytes_for_residency(properties: Any, blocks_per_sm: int, needed_bytes: int) -> int:
    """Dynamic shared memory per block with which exactly ``blocks_per_sm`` blocks fit an SM.

    Each block also costs ``reserved_shared_memory_per_block`` (1 KiB on sm_80 and later). Raises UserError when the
    blocks need more than the SM has.
    """
    reserved = 1024
    per_block = properties.shared_memory_per_multiprocessor // blocks_per_sm - reserved
    granted = min(per_block, properties.shared_memory_per_block_optin) // 1024 * 1024
    if granted < needed_bytes:
        raise UserError(
            f"--blocks-per-sm {blocks_per_sm}: each block needs {needed_bytes} bytes of shared memory, "
            f"{properties.name} can give {granted}"
        )
    return int(granted)
