"""Launch each variant at each STAGES on small shapes: what compute-sanitizer watches (``make sanitize``).

Nothing is computed here but the launches; the sanitizer's exit status is the verdict. The larger shape has more k-tiles
than stages and two blocks in each direction, so that every stage is reused and every border touched. The trap:
racecheck fails inside cuBLAS's own Hopper kernels, so no library product runs beside ours; ``gemm-bench check`` judges
results.
"""

from __future__ import annotations

import sys

from gemm.kernel.library import GemmLibrary, build_gemm, torch_dtype
from gemm.kernel.variants import STAGES, Kernel, Schedule, every_kernel
from micro.gpu.device import describe_device, require_gpu
from micro.model.variants import VARIANTS, BLayout
from stats.base.errors import BenchError

_SHAPES = [(256, 256, 224), (128, 128, 32)]


def main() -> None:
    """Launch the kernels that the sanitizer is to see: the ladder at each STAGES and pipelined, or ``--all``."""
    require_gpu(0)
    import torch

    described, _ = describe_device(0)
    kernels = [Kernel(variant, stages=stages) for variant in VARIANTS for stages in STAGES]
    kernels += [Kernel(variant, schedule=Schedule.PIPELINED) for variant in VARIANTS]
    if "--all" in sys.argv[1:]:
        kernels = list(every_kernel())
    library = GemmLibrary(build_gemm(kernels, [described.arch], ["-lineinfo"]))
    launches = 0
    for m, n, k in _SHAPES:
        for kernel in kernels:
            dtype = torch_dtype(kernel.dtype)
            a, b = torch.randn(m, k).to(dtype).cuda(), torch.randn(k, n).to(dtype)
            transposed = VARIANTS[kernel.variant].b_layout is BLayout.TRANSPOSED
            b = (b.t().contiguous() if transposed else b).cuda()
            library.launcher(kernel, a, b, torch.empty(m, n, dtype=dtype, device="cuda"))()
            launches += 1
        torch.cuda.synchronize()
    print(f"{launches} launches")


if __name__ == "__main__":
    try:
        main()
    except BenchError as error:
        sys.exit(f"sanitize: {error}")
