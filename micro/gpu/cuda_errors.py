"""What a CUDA error of our own libraries means to whoever runs them: a defect, or a library built for another GPU.

Resources of a kernel are read before its first launch, so a library without code for this GPU is refused there. The
trap: CUDA reports that as "no kernel image" or, if only that kernel is missing, as "invalid device function", and names
neither the architectures of the library nor that of the GPU.
"""

from __future__ import annotations

from collections.abc import Sequence

from micro.gpu.cuda_driver import cuda_driver
from stats.base.errors import BenchError, UserError

# driver_types.h: cudaErrorInvalidDeviceFunction, cudaErrorNoKernelImageForDevice.
_NO_CODE = (98, 209)


def cuda_failure(error: int, words: str, doing: str, archs: Sequence[int] = ()) -> BenchError:
    """The exception for CUDA's error number: UserError where the library (for ``archs``) has no code for this GPU."""
    if error not in _NO_CODE:
        return BenchError(f"{doing}: CUDA says {words!r}")
    holds = ", ".join(f"sm_{arch}" for arch in archs) or "other architectures"
    driver = cuda_driver()
    # CUDA is initialised by now, or there would be no error of this kind.
    present = sorted({f"sm_{device.arch}" for device in driver.devices()}) if driver and driver.start() is None else []
    here = " and ".join(present) or "another"
    return UserError(
        f"{doing}: the library holds code for {holds}, this GPU is {here} (CUDA: {words}); "
        f"build it for {present[0] if present else 'the GPU that runs it'}"
    )
