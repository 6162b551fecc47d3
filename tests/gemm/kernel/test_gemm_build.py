"""What the compiler makes of the kernels, read back without a GPU: the table, registers, spills, the main loop."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from gemm.kernel.arguments import TILE
from gemm.kernel.compiled import compiled_kernels
from gemm.kernel.library import CUDA_DIR, INCLUDE_DIRS, GemmLibrary, build_gemm
from gemm.kernel.variants import Kernel, Schedule, every_kernel
from micro.code.counts import CATEGORIES
from micro.code.sass import disassemble
from micro.gpu.build import compile_cubin, load_copy
from micro.model.variants import VARIANTS
from stats.base.errors import UserError
from tests.ladder import LOADS
from tests.makers.compiled import SLOW_80_AND_90

pytestmark = pytest.mark.cuda_build

# The fp16 kernels differ from these in the mma's type alone; one group of them is enough.
GROUPS = sorted({kernel.group for kernel in every_kernel(dtypes=["bf16"])} | {Kernel("A1", dtype="fp16").group})


def test_the_c_table_and_the_python_meaning_are_equal() -> None:
    kernels = list(every_kernel())
    library = GemmLibrary(build_gemm(kernels, [90]))
    assert {row.kernel for row in library.table} == set(kernels)
    assert len(library.table) == len(kernels)
    for row in library.table:
        meaning = VARIANTS[row.kernel.variant]
        assert (row.read_mode, row.b_layout) == (meaning.read_mode, meaning.b_layout), row.kernel.name
    assert library.tile() == TILE
    ring = {row.kernel.stages: row.shared_bytes for row in library.table if not row.kernel.epilogue}
    assert ring == {1: 16384, 2: 32768, 3: 49152, 4: 65536}


def test_a_library_holds_only_what_was_asked_for_and_says_so() -> None:
    built = build_gemm([Kernel("A1")], [90])
    library = GemmLibrary(built)
    assert {row.kernel.group for row in library.table} == {Kernel("A1").group}
    with pytest.raises(UserError, match=r"A1/fp16: this library holds .*A1"):
        library.index(Kernel("A1", dtype="fp16"))


def test_the_twin_has_a_table_of_its_own() -> None:
    built = build_gemm([Kernel("A1")], [90])
    library, twin = GemmLibrary(built), GemmLibrary(load_copy(built, "twin"))
    assert len(twin.table) == len(library.table)
    addresses = [ctypes.cast(one._library.gemm_launch, ctypes.c_void_p).value for one in (library, twin)]
    assert addresses[0] != addresses[1]


@pytest.mark.parametrize("arch", SLOW_80_AND_90)
@pytest.mark.parametrize("group", GROUPS)
def test_two_blocks_fit_an_sm_and_nothing_spills(group: str, arch: int) -> None:
    kernels = [kernel for kernel in every_kernel() if kernel.group == group]
    found = compiled_kernels(kernels, [arch])
    assert len(found) == len(kernels)
    for one in found:
        name = one.labels["variant"], one.labels["build"]
        assert (one.resources.stack_bytes, one.spill_instructions) == (0, 0), name
        assert one.residency is not None
        if "uncapped" not in one.labels["build"]:
            assert one.residency.blocks == 2, name


@pytest.mark.parametrize("arch", SLOW_80_AND_90)
@pytest.mark.parametrize("build", ["main table", "pipelined"])
def test_the_main_loop_holds_the_loads_the_mma_and_no_address_work_per_kstep(build: str, arch: int) -> None:
    schedule = Schedule.PIPELINED if build == "pipelined" else Schedule.PLAIN
    kernels = compiled_kernels([Kernel(variant, schedule=schedule) for variant in VARIANTS], [arch])
    assert {kernel.labels["variant"] for kernel in kernels} == set(VARIANTS)
    for kernel in kernels:
        row, variant = kernel.row(), kernel.labels["variant"]
        assert row["ksteps_per_loop"] == 6  # unrolled by 3 stages of 2 k-steps
        assert row["HMMA"] == 16
        assert {name: row[name] for name in CATEGORIES if name.startswith("LDS") and row[name]} == LOADS[variant]
        assert row["PRMT"] == (8 if variant == "A1" else 0)
        assert row["LDGSTS"] == 2
        # A swizzled address built anew would take an XOR; pointers advance per tile, so by half an instruction each.
        assert row["LOP3"] == row["LEA"] == 0
        assert row["IMAD"] + row["IADD"] <= 6


@pytest.mark.parametrize("arch", SLOW_80_AND_90)
def test_every_kernel_asks_l2_for_the_same(arch: int) -> None:
    kinds = {
        instruction.opcode
        for group in ("bf16_cp_async_swizzled", "departures")
        for function in disassemble(compile_cubin(CUDA_DIR / f"group_{group}.cu", arch, include_dirs=INCLUDE_DIRS))
        for instruction in function.instructions
        if instruction.base == "LDGSTS"
    }
    assert len(kinds) == 1, kinds


@pytest.mark.slow
@pytest.mark.parametrize(("number", "mistake"), list(enumerate(["none", "unswizzled", "swapped", "skipped"])))
def test_a_broken_build_is_another_program(number: int, mistake: str) -> None:
    good = compile_cubin(CUDA_DIR / "group_departures.cu", 90, include_dirs=INCLUDE_DIRS)
    flags = [f"-DGEMM_BREAK={number}"]
    built = compile_cubin(CUDA_DIR / "group_departures.cu", 90, flags=flags, include_dirs=INCLUDE_DIRS)

    def code(cubin: Path) -> list[list[tuple[str, tuple[str, ...]]]]:
        return [[(one.opcode, one.operands) for one in function.instructions] for function in disassemble(cubin)]

    assert (code(good) == code(built)) is (mistake == "none")
