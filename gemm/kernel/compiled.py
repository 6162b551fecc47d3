"""What did the compiler make of the kernels? Registers, residency and the instructions of the main loop, from cubins.

Needs nvcc and a disassembler, no GPU: this is what can be told of a GEMM without one. Kernels are known by the template
arguments in their mangled names. The trap: residency is computed here from published limits; a run reads it back from
the driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gemm.kernel.library import CUDA_DIR, INCLUDE_DIRS
from gemm.kernel.variants import Epilogue, Kernel, LoadMode, Schedule, Wait
from micro.code.counts import Kernel as CompiledKernel
from micro.code.counts import KernelSpec, analyse_cubin, in_parallel
from micro.code.cubin import parse_instance
from micro.gpu.build import compile_cubin
from micro.model.layout import layout
from micro.model.variants import VARIANTS

_DTYPES = {"__nv_bfloat16": "bf16", "__half": "fp16"}


def kernel_of(mangled: str) -> Kernel | None:
    """The kernel behind a mangled name; None for another function."""
    instance = parse_instance(mangled, "gemm_kernel")
    if instance is None:
        return None
    dtype, read_mode, b_layout, load_mode, stages, swizzle, epilogue, schedule, wait, blocks = instance.arguments
    variant = next(v.name for v in VARIANTS.values() if (v.read_mode, v.b_layout) == (read_mode, b_layout))
    return Kernel(
        variant=variant,
        dtype=_DTYPES[str(dtype)],
        load_mode=LoadMode(int(load_mode)),
        stages=int(stages),
        swizzle=bool(swizzle),
        epilogue=Epilogue(int(epilogue)),
        schedule=Schedule(int(schedule)),
        wait=Wait(int(wait)),
        blocks_per_sm=int(blocks),
    )


def shared_bytes(kernel: Kernel) -> int:
    """Dynamic shared memory of a block: the ring, or the C tile of a staged epilogue where that is larger."""
    sizes = layout().constants
    c_tile = 2 * sizes.bm * sizes.bn if kernel.epilogue is Epilogue.STAGED else 0
    return max(kernel.stages * sizes.stage_bytes, c_tile)


def describe_gemm(mangled: str) -> KernelSpec | None:
    """The spec of an instance of ``gemm_kernel``; None for any other function."""
    kernel = kernel_of(mangled)
    if kernel is None:
        return None
    return KernelSpec(
        labels={
            "variant": kernel.variant,
            "swizzle": "on" if kernel.swizzle else "off",
            "build": kernel.departure.lstrip("/") or "main table",
        },
        loads=True,
        mma=True,
        threads=32 * layout().constants.warps,
        dynamic_shared_bytes=lambda _: shared_bytes(kernel),
    )


def compiled_kernels(kernels: Iterable[Kernel], archs: Sequence[int]) -> list[CompiledKernel]:
    """Compile the groups that hold ``kernels`` for ``archs`` (80, 90, ...) and analyse each kernel.

    Raises UserError: no toolkit, unknown architecture, no disassembler; SassError: a loop that cannot be counted.
    """
    wanted = list(kernels)

    def describe(mangled: str) -> KernelSpec | None:
        return describe_gemm(mangled) if kernel_of(mangled) in wanted else None

    def of_group(item: tuple[int, str]) -> list[CompiledKernel]:
        arch, group = item
        return analyse_cubin(compile_cubin(CUDA_DIR / f"group_{group}.cu", arch, include_dirs=INCLUDE_DIRS), describe)

    groups = dict.fromkeys(kernel.group for kernel in wanted)
    return in_parallel(of_group, [(arch, group) for arch in archs for group in groups])
