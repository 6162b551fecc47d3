"""Launch each variant at each STAGES once on a small shape: what compute-sanitizer watches (``make sanitize``).

Nothing is asserted here beyond the correctness check; the sanitizer's own exit status is the verdict. The larger shape
has more k-tiles than stages and two blocks in each direction, so that every stage is reused and every border touched.
The trap: the sanitizer would watch torch's kernels too, so `make sanitize` names ours.
"""

from __future__ import annotations

import sys

from gemm.check import check_all
from gemm.library import GemmLibrary, build_gemm
from gemm.variants import STAGES, Kernel, Schedule, every_kernel
from micro.device import describe_device, require_gpu
from micro.variants import VARIANTS
from stats.errors import BenchError

_SHAPES = [(256, 256, 224), (128, 128, 32)]


def main() -> int:
    """Run the kernels that the sanitizer is to see; 1 when one is wrong."""
    require_gpu(0)
    described, _ = describe_device(0)
    kernels = [Kernel(variant, stages=stages) for variant in VARIANTS for stages in STAGES]
    kernels += [Kernel(variant, schedule=Schedule.PIPELINED) for variant in VARIANTS]
    if "--all" in sys.argv[1:]:
        kernels = list(every_kernel())
    library = GemmLibrary(build_gemm(kernels, [int(described.compute_capability.replace(".", ""))], ["-lineinfo"]))
    report = check_all(library, kernels, _SHAPES, seed=1)
    for failure in report.failures:
        print(f"FAIL {failure}")
    print(f"{report.checked} launches, {len(report.failures)} failures")
    return 1 if report.failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as error:
        sys.exit(f"sanitize: {error}")
