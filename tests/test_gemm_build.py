"""What the compiler makes of the kernels, read back without a GPU: the table, registers, spills, the main loop."""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from gemm.arguments import TILE
from gemm.library import CUDA_DIR, INCLUDE_DIRS, GemmLibrary, build_gemm, source_hash, sources
from gemm.variants import Kernel, every_kernel
from micro.build import compile_cubin, load_copy
from micro.toolchain import disassembler
from micro.variants import VARIANTS
from stats.errors import UserError

pytestmark = pytest.mark.cuda_build

ARCHS = (80, 90)
GROUPS = sorted({kernel.group for kernel in every_kernel()})
REGISTERS_FOR_2_BLOCKS = 128  # 65,536 registers of an SM over 2 blocks of 256 threads
# Loads of one warp k-step by read mode and layout: design, section 1.
LOADS = {"A1": {"LDS": 16, "LDS.U16": 16}, "A2": {"LDS": 24}, "A2L": {"LDSM": 8}, "A3": {"LDSM": 8}}


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


def test_the_hash_does_not_depend_on_the_groups_but_on_the_flags() -> None:
    assert source_hash() == source_hash()
    assert source_hash() != source_hash(["-DGEMM_BREAK=1"])
    assert len(sources([Kernel("A1"), Kernel("A3")])) == 2


@dataclass(frozen=True)
class Compiled:
    kernel: Kernel
    registers: int
    stack_bytes: int
    local_bytes: int


def mangled(kernel: Kernel) -> str:
    """The tail of a kernel's mangled name: the template arguments in the order of gemm.cuh."""
    meaning = VARIANTS[kernel.variant]
    dtype = {"bf16": "13__nv_bfloat16", "fp16": "6__half"}[kernel.dtype]
    return (
        rf"gemm_kernelI{dtype}LN6layout8ReadModeE{int(meaning.read_mode)}ELNS\d*_7BLayoutE{int(meaning.b_layout)}E"
        rf"L8LoadMode{int(kernel.load_mode)}ELi{kernel.stages}ELb{int(kernel.swizzle)}E"
        rf"L8Epilogue{int(kernel.epilogue)}EL8Schedule{int(kernel.schedule)}EL4Wait{int(kernel.wait)}E"
        rf"Li{kernel.blocks_per_sm}EEE"
    )


def cubin(group: str, arch: int) -> Path:
    return compile_cubin(CUDA_DIR / f"group_{group}.cu", arch, include_dirs=INCLUDE_DIRS)


def compiled(group: str, arch: int) -> list[Compiled]:
    command = [str(disassembler("cuobjdump")), "--dump-resource-usage", str(cubin(group, arch))]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    usage = re.findall(r"Function (\S+):\s*\n\s*REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)", text)
    kernels = [kernel for kernel in every_kernel() if kernel.group == group]
    found = []
    for kernel in kernels:
        ((_, *figures),) = [row for row in usage if re.search(mangled(kernel), row[0])]
        found.append(Compiled(kernel, *map(int, figures)))
    assert len(usage) == len(kernels)
    return found


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("group", GROUPS)
def test_two_blocks_fit_an_sm_and_nothing_spills(group: str, arch: int) -> None:
    for one in compiled(group, arch):
        assert one.stack_bytes == one.local_bytes == 0, f"{one.kernel.name} spills"
        if one.kernel.blocks_per_sm == 2:
            assert one.registers <= REGISTERS_FOR_2_BLOCKS, one.kernel.name


def main_loop(kernel: Kernel, arch: int) -> Counter[str]:
    """Instructions of the loop over k-tiles, by opcode; those that never execute (@!PT, ptxas's padding) left out."""
    text = subprocess.run(
        [str(disassembler("nvdisasm")), "-c", str(cubin(kernel.group, arch))],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    body = re.split(r"^\.text\.(\S+):", text, flags=re.MULTILINE)
    ((code,)) = [code for name, code in zip(body[1::2], body[2::2], strict=True) if re.search(mangled(kernel), name)]
    instructions: list[str] = []
    labels: dict[str, int] = {}
    loops: list[list[str]] = []
    for line in code.splitlines():
        if label := re.match(r"(\.L\S+):", line):
            labels[label[1]] = len(instructions)
        elif instruction := re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;", line):
            instructions.append(instruction[1])
            target = re.search(r"BRA.*?(\.L\w+)", instruction[1])
            if target and target[1] in labels:
                loops.append(instructions[labels[target[1]] :])
    loop = max(loops, key=lambda one: sum("HMMA" in instruction for instruction in one))
    executed = [instruction for instruction in loop if not instruction.startswith(("@!PT", "@!UPT"))]
    opcodes = [re.sub(r"^@!?U?P\w+\s+", "", instruction).split()[0] for instruction in executed]
    return Counter(re.sub(r"^(LDS\.U16|[A-Z0-9]+).*", r"\1", opcode) for opcode in opcodes)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("variant", list(VARIANTS))
def test_the_main_loop_holds_the_loads_the_mma_and_no_address_work_per_kstep(variant: str, arch: int) -> None:
    loop = main_loop(Kernel(variant), arch)
    ksteps, tiles = 6, 3  # unrolled by STAGES = 3, two k-steps a tile
    assert loop["HMMA"] == 16 * ksteps
    loads = {opcode: loop[opcode] for opcode in ("LDS", "LDS.U16", "LDSM") if loop[opcode]}
    assert loads == {opcode: count * ksteps for opcode, count in LOADS[variant].items()}
    assert loop["PRMT"] == (8 * ksteps if variant == "A1" else 0)
    assert loop["LDGSTS"] == 4 * tiles
    # Swizzles are XORs, and a shift or a shuffle would be an address built anew.
    assert not {"LOP3", "SHF", "LEA", "SHFL", "STL", "LDL"} & set(loop)
    # Pointers advance per tile: two 64-bit pointers and the second chunk of each, with a move or two.
    assert (loop["IADD3"] + loop["IMAD"] + loop["MOV"] + loop["VIADD"]) / tiles <= 11


@pytest.mark.parametrize("arch", ARCHS)
def test_every_variant_prefetches_into_l2_alike(arch: int) -> None:
    for group in ("bf16_cp_async_swizzled", "departures"):
        text = subprocess.run(
            [str(disassembler("nvdisasm")), "-c", str(cubin(group, arch))], capture_output=True, text=True, check=True
        ).stdout
        kinds = set(re.findall(r"LDGSTS\.\S+", text))
        assert len(kinds) == 1, kinds
