"""Which program does a kernel of the suite run: compiled, disassembled, its loop found, its accesses given wavefronts?

A cubin is compiled per architecture (nvcc, no GPU); kernels of one source are told by their template arguments.
Wavefronts of a load come from the bank model over ``layout.cuh``: all loads of one form in a variant cost the same, and
that is checked. The trap: a record says which schedule and launch bounds ran, and each has its own machine code.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gemm.kernel.compiled import kernel_of
from gemm.kernel.library import CUDA_DIR, INCLUDE_DIRS, sources
from gemm.kernel.variants import Kernel
from gemm.simulator.path import steady_pass
from gemm.simulator.program import Control, Program, read_cubin, to_ops
from micro.bench.contention.design import KINDS, PASSES_PER_LOOP, Arm
from micro.code.cubin import parse_instance
from micro.code.loops import main_loop
from micro.code.sass import Function, Instruction, SassError
from micro.gpu.build import CUDA_DIR as MICRO_CUDA_DIR
from micro.gpu.build import compile_cubin
from micro.gpu.toolchain import disassembler, find_toolkit
from micro.model.banks import kstep_wavefronts, tile_store
from micro.model.layout import layout
from micro.model.variants import VARIANTS, Variant
from stats.base.errors import UserError

WORKS = ("load", "load+mma", "mma")  # in the order of Work in micro.cu
_FORMS = {"ld.shared.b32": "LDS", "ld.shared.b16": "LDS.U16", "ldmatrix.x4": "LDSM.4"}

_WARP, _LINE_BYTES, _ELEMENT_BYTES = 32, 128, 2
_READS = re.compile(r"tiles_kernelI.*?BLayoutE(\d)EN.*?5ReadsI.*?ReadModeE(\d)E")
_CONTENTION_COPY_LINES = 4  # 512 contiguous bytes

_Compiled = tuple[Function, dict[int, Control]]


def without_machine_code() -> str | None:
    """Why no program can be read here (no nvcc, no disassembler) with the remedy; None where one can."""
    try:
        find_toolkit()
        for name in ("nvdisasm", "cuobjdump"):
            try:
                disassembler(name)
                return None
            except UserError as error:
                missing = error
    except UserError as error:
        missing = error
    return str(missing)


def _forms(variant: Variant, swizzle: bool) -> Mapping[str, int]:
    """Wavefronts of each form of load: ``LDS``, ``LDS.U16``, ``LDSM.4``, ``LDSM.2``. Raises SassError if one varies."""
    found: dict[str, int] = {}
    for load in kstep_wavefronts(variant, swizzle).loads:
        form, cost = _FORMS.get(load.instruction, "LDSM.2"), load.wavefronts.total
        if found.setdefault(form, cost) != cost:
            raise SassError(f"{variant.name}: loads of form {form} take {found[form]} and {cost} wavefronts")
    return found


def copy_lines(variant: Variant) -> float:
    """128-byte lines of global memory that a warp-wide copy touches: the mean over the copies of a tile.

    A row of A's tile is 64 bytes of one line; natural B's rows are two lines each. Rows start at multiples of 64 bytes.
    """
    where = layout()
    sizes = where.constants
    counts = []
    for chunks, coord in (
        (sizes.a_chunks, where.a_chunk),
        (sizes.b_chunks, functools.partial(where.b_chunk, variant.b_layout)),
    ):
        for first in range(0, chunks, _WARP):
            at = [coord(chunk) for chunk in range(first, first + _WARP)]
            counts.append(len({(row, _ELEMENT_BYTES * column // _LINE_BYTES) for row, column in at}))
    return sum(counts) / len(counts)


def _form_of(instruction: Instruction) -> str:
    if instruction.base == "LDS":
        return "LDS.U16" if "U16" in instruction.modifiers else "LDS"
    return f"LDSM.{'4' if '4' in instruction.modifiers else '2' if '2' in instruction.modifiers else '1'}"


@dataclass(frozen=True)
class _Costs:
    """Wavefronts of the accesses of one variant."""

    variant: Variant
    forms: Mapping[str, int]
    per_store: int

    def of(self, instruction: Instruction) -> int:
        if instruction.base not in ("LDS", "LDSM"):
            return self.per_store
        form = _form_of(instruction)
        if form not in self.forms:
            raise SassError(f"{instruction.opcode} is no load of variant {self.variant.name}")
        return self.forms[form]


def _program(name: str, compiled: _Compiled, variant: Variant, swizzle: bool, *, loads_only: bool = False) -> Program:
    function, controls = compiled
    sizes = layout().constants
    tile = tile_store(variant, swizzle)
    costs = _Costs(variant, _forms(variant, swizzle), tile.total // len(tile.stores))

    def holds(instruction: Instruction) -> bool:
        return instruction.guard != "!PT" and instruction.base in (("LDS", "LDSM") if loads_only else ("HMMA",))

    loop = main_loop(function, holds, "a load" if loads_only else "an mma")
    ops = to_ops(steady_pass(loop), controls, costs.of, copy_lines(variant))
    counted = sum(op.kind == ("load" if loads_only else "mma") for op in ops)
    per_kstep = len(kstep_wavefronts(variant, swizzle).loads) if loads_only else sizes.m_fragments * sizes.n_fragments
    if not counted or counted % per_kstep:
        raise SassError(f"{name}: the loop holds {counted} of what a k-step has {per_kstep} of")
    return Program(name, function.arch, ops, counted // per_kstep)


def _variant(mode: int | str, b_layout: int | str) -> Variant:
    return next(v for v in VARIANTS.values() if (v.read_mode, v.b_layout) == (mode, b_layout))


@functools.cache
def _micro_functions(arch: int) -> dict[tuple[str, bool, str], _Compiled]:
    found = {}
    for function, controls in read_cubin(compile_cubin(MICRO_CUDA_DIR / "micro.cu", arch)):
        instance = parse_instance(function.name, "micro_kernel")
        if instance is not None:
            mode, b_layout, swizzle, work = instance.arguments
            found[_variant(mode, b_layout).name, bool(swizzle), WORKS[int(work)]] = (function, controls)
    return found


@functools.cache
def micro_program(variant: str, work: str, arch: int, swizzle: bool = True) -> Program:
    """The loop of the micro kernel; ``work`` is one of WORKS. Raises UserError without nvcc or disassembler."""
    compiled = _micro_functions(arch)[variant, swizzle, work]
    name = f"micro {variant}:{work} sm_{arch}"
    return _program(name, compiled, VARIANTS[variant], swizzle, loads_only=work == "load")


@functools.cache
def _reads_functions(arch: int) -> dict[str, _Compiled]:
    found = {}
    for function, controls in read_cubin(compile_cubin(CUDA_DIR / "stream.cu", arch, include_dirs=INCLUDE_DIRS)):
        modes = _READS.search(function.name)
        if modes is not None:
            found[_variant(int(modes[2]), int(modes[1])).name] = (function, controls)
    return found


@functools.cache
def reads_program(variant: str, arch: int) -> Program:
    """The steady pass of the GEMM's copies and reads without mma. Raises UserError without nvcc or disassembler."""
    compiled = _reads_functions(arch)[variant]
    return _program(f"reads {variant} sm_{arch}", compiled, VARIANTS[variant], True, loads_only=True)


@functools.cache
def contention_program(arm: Arm, arch: int) -> Program:
    """One trip (4 passes) through the loop of an arm of the contention benchmark; a "k-step" of it is a pass."""
    function, controls = _contention_functions(arch)[_arm_key(arm)]
    loop = main_loop(function, lambda i: i.base == "HMMA" or i.opcode == arm.kind.machine, "what is timed")
    ops = to_ops(steady_pass(loop), controls, lambda _: max(1, arm.kind.port_cycles), _CONTENTION_COPY_LINES)
    return Program(f"contention {arm.name} sm_{arch}", arch, ops, PASSES_PER_LOOP)


def _arm_key(arm: Arm) -> tuple[int, int, int, int]:
    """The template arguments of an arm's kernel: kind, instructions, with mma, copies (-1: none)."""
    return KINDS.index(arm.kind), arm.instructions, int(arm.with_mma), -1 if arm.copies is None else arm.copies


@functools.cache
def _contention_functions(arch: int) -> dict[tuple[int, ...], _Compiled]:
    found = {}
    for function, controls in read_cubin(compile_cubin(MICRO_CUDA_DIR / "contention.cu", arch)):
        instance = parse_instance(function.name, "contention_kernel")
        if instance is not None:
            found[tuple(int(argument) for argument in instance.arguments)] = (function, controls)
    return found


@functools.cache
def _gemm_functions(arch: int, source: Path) -> dict[Kernel, _Compiled]:
    found = {}
    for function, controls in read_cubin(compile_cubin(source, arch, include_dirs=INCLUDE_DIRS)):
        kernel = kernel_of(function.name)
        if kernel is not None:
            found[kernel] = (function, controls)
    return found


@functools.cache
def gemm_program(kernel: Kernel, arch: int) -> Program:
    """The steady pass of a GEMM kernel's main loop. Raises UserError for a kernel that is not built."""
    compiled = _gemm_functions(arch, sources([kernel])[-1])[kernel]
    return _program(f"gemm {kernel.name} sm_{arch}", compiled, VARIANTS[kernel.variant], kernel.swizzle)
