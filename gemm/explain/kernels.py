"""Which program does a kernel of the suite run: compiled, disassembled, its loop found, its accesses given wavefronts?

A cubin is compiled per architecture (nvcc, no GPU); the micro kernel and the GEMM kernel are told by their template arguments.
Wavefronts of a load come from the bank model over ``layout.cuh``: all loads of one form in a variant cost the same, and that
is checked. The trap: GEMM records say which schedule and which launch bounds ran, and each has its own machine code.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from gemm.explain.path import steady_pass
from gemm.explain.program import Program, read_cubin, to_ops
from micro.banks import kstep_wavefronts, tile_store
from micro.build import CUDA_DIR, compile_cubin
from micro.cubin import parse_instance
from micro.layout import layout
from micro.loops import main_loop
from micro.sass import Function, Instruction, SassError
from micro.variants import VARIANTS, Variant
from stats.errors import UserError

__all__ = ["GemmBuild", "gemm_program", "micro_program"]

WORKS = ("load", "load+mma", "mma")


@dataclass(frozen=True)
class GemmBuild:
    """Which build of the GEMM kernel, as the template's arguments name it."""

    load_mode: int = 1
    stages: int = 3
    swizzle: bool = True
    epilogue: int = 0
    schedule: int = 0
    wait: int = 0
    min_blocks: int = 2
    dtype: str = "bf16"


def _forms(variant: Variant, swizzle: bool) -> Mapping[str, int]:
    """Wavefronts of each form of load: ``LDS``, ``LDS.U16``, ``LDSM.4``, ``LDSM.2``. Raises SassError if a form varies."""
    found: dict[str, int] = {}
    for load in kstep_wavefronts(variant, swizzle).loads:
        form = {"ld.shared.b32": "LDS", "ld.shared.b16": "LDS.U16", "ldmatrix.x4": "LDSM.4"}.get(
            load.instruction, "LDSM.2"
        )
        if found.setdefault(form, load.wavefronts.total) != load.wavefronts.total:
            raise SassError(
                f"{variant.name}: loads of form {form} take {found[form]} and {load.wavefronts.total} wavefronts"
            )
    return found


def _form_of(instruction: Instruction) -> str:
    if instruction.base == "LDS":
        return "LDS.U16" if "U16" in instruction.modifiers else "LDS"
    return f"LDSM.{'4' if '4' in instruction.modifiers else '2' if '2' in instruction.modifiers else '1'}"


def _program(
    name: str, function: Function, controls: dict, variant: Variant, swizzle: bool, *, loads_only: bool
) -> Program:
    sizes = layout().constants
    forms = _forms(variant, swizzle)
    tile = tile_store(variant, swizzle)
    per_store = tile.total // len(tile.stores)

    def wavefronts(instruction: Instruction) -> int:
        if instruction.base in ("LDS", "LDSM"):
            form = _form_of(instruction)
            if form not in forms:
                raise SassError(f"{name}: {instruction.opcode} is no load of variant {variant.name}")
            return forms[form]
        return per_store

    def holds(instruction: Instruction) -> bool:
        return instruction.base in (("LDS", "LDSM") if loads_only else ("HMMA",))

    loop = main_loop(function, holds, "a load" if loads_only else "an mma")
    ops = to_ops(steady_pass(loop), controls, wavefronts)
    mma_per_kstep = sizes.m_fragments * sizes.n_fragments
    count = sum(op.kind == "load" for op in ops) if loads_only else sum(op.kind == "mma" for op in ops)
    ksteps, left = divmod(count, len(kstep_wavefronts(variant, swizzle).loads) if loads_only else mma_per_kstep)
    if left or not ksteps:
        raise SassError(f"{name}: the loop holds no whole number of k-steps")
    return Program(name, function.arch, ops, ksteps)


def _variant(mode: int | str, b_layout: int | str) -> Variant:
    return next(v for v in VARIANTS.values() if (v.read_mode, v.b_layout) == (mode, b_layout))


@functools.cache
def _micro_functions(arch: int) -> dict[tuple[str, bool, str], tuple[Function, dict]]:
    found = {}
    for function, controls in read_cubin(compile_cubin(CUDA_DIR / "micro.cu", arch)):
        instance = parse_instance(function.name, "micro_kernel")
        if instance is not None:
            mode, b_layout, swizzle, work = instance.arguments
            # Work of micro.cu: load_only, load_mma, mma_only
            found[_variant(mode, b_layout).name, bool(swizzle), WORKS[int(work)]] = (function, controls)
    return found


@functools.cache
def micro_program(variant: str, work: str, arch: int, swizzle: bool = True) -> Program:
    """The loop of the micro kernel: ``work`` is load, load+mma or mma. Raises UserError without nvcc or disassembler."""
    function, controls = _micro_functions(arch)[variant, swizzle, work]
    name = f"micro {variant}:{work} sm_{arch}"
    return _program(name, function, controls, VARIANTS[variant], swizzle, loads_only=work == "load")


@functools.cache
def _gemm_functions(arch: int, part: str) -> dict[tuple[str, GemmBuild], tuple[Function, dict]]:
    folder = CUDA_DIR.parent.parent / "gemm" / "cuda"
    source = folder / "parts" / f"{part}.cu"
    if not source.exists():
        raise UserError(f"{source}: no such group of kernels")
    found = {}
    for function, controls in read_cubin(compile_cubin(source, arch, include_dirs=(CUDA_DIR, folder))):
        instance = parse_instance(function.name, "gemm_kernel")
        if instance is None:
            continue
        dtype, mode, b_layout, load, stages, swizzle, epilogue, schedule, wait, blocks = instance.arguments
        build = GemmBuild(
            int(load),
            int(stages),
            bool(swizzle),
            int(epilogue),
            int(schedule),
            int(wait),
            int(blocks),
            "bf16" if "bfloat16" in str(dtype) else "fp16",
        )
        found[_variant(mode, b_layout).name, build] = (function, controls)
    return found


@functools.cache
def gemm_program(variant: str, arch: int, build: GemmBuild | None = None) -> Program:
    """The steady pass of the GEMM's main loop. Raises UserError when no group of kernels holds this build."""
    build = build or GemmBuild()
    mode = "cp_async" if build.load_mode else "ld_global"
    main = f"{build.dtype}_{mode}_{'swizzled' if build.swizzle else 'unswizzled'}"
    for part in (main, "departures"):
        functions = _gemm_functions(arch, part)
        if (variant, build) in functions:
            function, controls = functions[variant, build]
            name = f"gemm {variant} sm_{arch}"
            return _program(name, function, controls, VARIANTS[variant], build.swizzle, loads_only=False)
    raise UserError(f"{build}: no group of kernels in gemm/cuda/parts holds this build")
