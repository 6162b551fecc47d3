"""What ncu counts: every asked-for GEMM kernel launched once, its result checked, and nothing else of note.

``python -m gemm.counters.target --variant A1 --swizzle on --shape 2048x2048x512``. Launches come in the order variant,
swizzle; ``--facts`` writes what each one was. The trap: a build inside a profiled
process would be profiled too, so the caller runs this once without ncu first.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from gemm.kernel.arguments import parse_shape
from gemm.kernel.variants import Kernel
from micro.counters.record import Facts, LaunchFacts
from micro.counters.target import run_target, swizzles_of
from micro.model.variants import ALL_VARIANTS, parse_variants


def launch_all(kernels: Sequence[Kernel], shape: tuple[int, int, int], device: int) -> Facts:
    """Launch each kernel once and check its C. Raises UserError and BenchError as the correctness gate does."""
    from micro.gpu.device import require_gpu

    require_gpu(device)

    from gemm.kernel.library import GemmLibrary, build_gemm, header_facts
    from gemm.kernel.operands import make_operands
    from gemm.ladder.check import gate
    from micro.gpu.device import describe_device

    described, _ = describe_device(device)
    built = build_gemm(kernels, [described.arch])
    library = GemmLibrary(built)
    operands = make_operands(*shape, "bf16", 1)
    gate(library, kernels, operands)  # its launches are the counted ones: one a kernel, in this order
    m, n, k = shape
    tile = library.tile()
    launches = []
    for kernel in kernels:
        row = library.table[library.index(kernel)]
        launches.append(
            LaunchFacts(
                arm=kernel.name,
                template=[
                    int(row.read_mode),
                    int(row.b_layout),
                    int(kernel.load_mode),
                    kernel.stages,
                    int(kernel.swizzle),
                    int(kernel.epilogue),
                    int(kernel.schedule),
                    int(kernel.wait),
                    kernel.blocks_per_sm,
                ],
                blocks=m // tile["m"] * (n // tile["n"]),
                arguments={"variant": kernel.variant, "swizzle": kernel.swizzle, "m": m, "n": n, "k": k},
            )
        )
    return Facts(device=described, launches=launches, **header_facts(built))


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m gemm.counters.target", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--variant", default=ALL_VARIANTS)
    parser.add_argument("--swizzle", choices=("on", "off", "both"), default="both")
    parser.add_argument("--shape", default="2048x2048x512")
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--facts", type=Path, help="write here, as JSON, what was launched")
    options = parser.parse_args(arguments)

    def make() -> Facts:
        variants = parse_variants(options.variant)
        kernels = [Kernel(name, swizzle=swizzle) for name in variants for swizzle in swizzles_of(options.swizzle)]
        return launch_all(kernels, parse_shape(options.shape), options.device)

    return run_target(make, options.facts)


if __name__ == "__main__":
    sys.exit(main())
