"""The machine code holds what each cell claims: the timed loop is 64 of its instruction, and its counter.

nvcc and nvdisasm only; no device. Each check is also shown to fail on a source in which it must.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from micro.bench.instructions.cells import SOURCE, InstructionsLibrary
from micro.bench.instructions.design import ALL_IN_FLIGHT, INSTRUCTIONS_PER_LOOP
from micro.gpu.build import CUDA_DIR, build_library, compile_cubin, load_library
from micro.gpu.toolchain import disassembler
from micro.model.patterns import IMAGE_BYTES, INSTRUCTIONS, Instruction, Work

pytestmark = pytest.mark.cuda_build

# The C++ name of the kernel's template arguments, as the compiler mangles it.
MANGLED = {
    "ld.shared.b16": "LdB16ELi{i}",
    "ld.shared.b32": "LdB32ELi{i}",
    "ld.shared.b64": "LdB64ELi{i}",
    "ld.shared.b128": "LdB128ELi{i}",
    "ldmatrix.x1": "5LdmX1ELi{i}",
    "ldmatrix.x2": "5LdmX2ELi{i}",
    "ldmatrix.x4": "5LdmX4ELi{i}",
    "ldmatrix.x1.trans": "LdmX1TELi{i}",
    "ldmatrix.x2.trans": "LdmX2TELi{i}",
    "ldmatrix.x4.trans": "LdmX4TELi{i}",
    "mma.bf16": "mma_kernelI13__nv_bfloat16Li{i}E",
    "mma.f16": "mma_kernelI6__halfLi{i}E",
    "stmatrix.x1": "store_kernelILi1E",
    "stmatrix.x2": "store_kernelILi2E",
    "stmatrix.x4": "store_kernelILi4E",
}
COUNTER = {"IADD3", "UIADD3", "ISETP", "UISETP", "BRA"}
CASES = [(name, i) for name, instruction in INSTRUCTIONS.items() for i in instruction.in_flight]


@cache
def disassembly(source: Path, arch: int) -> dict[str, str]:
    """SASS of every kernel by mangled name."""
    cubin = compile_cubin(source, arch)
    text = subprocess.run(
        [str(disassembler("nvdisasm")), "-c", str(cubin)], capture_output=True, text=True, check=True
    ).stdout
    parts = re.split(r"^\.text\.(\S+):$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def timed_loop(sass: str) -> list[str]:
    """Instructions of the longest loop: from the target of a backward branch to the branch."""
    lines: list[str] = []
    labels: dict[str, int] = {}
    longest: list[str] = []
    for line in sass.splitlines():
        if label := re.match(r"(\.L_x_\d+):", line):
            labels[label[1]] = len(lines)
        elif code := re.search(r"/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;", line):
            lines.append(code[1])
            back = re.search(r"\bBRA\b.*`\((\.L_x_\d+)\)", code[1])
            if back and back[1] in labels and len(lines) - labels[back[1]] > len(longest):
                longest = lines[labels[back[1]] :]
    return longest


def mnemonics(loop: list[str]) -> Counter[str]:
    return Counter(re.sub(r"^@!?U?P\d+\s+", "", line).split()[0] for line in loop)


def kernel(source: Path, name: str, in_flight: int, arch: int) -> list[str]:
    key = MANGLED[name].format(i=in_flight)
    found = [sass for mangled, sass in disassembly(source, arch).items() if key in mangled]
    assert len(found) == 1, f"{len(found)} kernels named {key}"
    return timed_loop(found[0])


def complaints(instruction: Instruction, loop: list[str]) -> list[str]:
    """What is wrong with a timed loop; empty if nothing is."""
    counts = mnemonics(loop)
    wrong = []
    if counts.pop(instruction.machine, 0) != INSTRUCTIONS_PER_LOOP:
        wrong.append(f"not {INSTRUCTIONS_PER_LOOP} {instruction.machine}")
    others = {name: n for name, n in counts.items() if name.split(".")[0] not in COUNTER}
    if instruction.work is Work.MMA:
        others.pop("NOP", None)  # ptxas pads a dependent HMMA, whose latency is longer than one stall can say
    if others:
        wrong.append(f"also in the loop: {others}")
    if sum(counts.values()) - sum(others.values()) > 20 and instruction.work is not Work.MMA:
        wrong.append("the counter is more than a counter")
    return wrong


@pytest.mark.parametrize(("name", "in_flight"), CASES, ids=[f"{n}.i{i}" for n, i in CASES])
def test_timed_loop_holds_the_instruction_and_its_counter_only(name: str, in_flight: int) -> None:
    assert complaints(INSTRUCTIONS[name], kernel(SOURCE, name, in_flight, 90)) == []


@pytest.mark.parametrize("name", [n for n, i in INSTRUCTIONS.items() if i.minimum_arch == 80])
def test_the_same_on_sm_80(name: str) -> None:
    assert complaints(INSTRUCTIONS[name], kernel(SOURCE, name, 4, 80)) == []


def test_every_kernel_of_the_source_is_named_here() -> None:
    keys = {MANGLED[name].format(i=i) for name, i in CASES}
    kernels = list(disassembly(SOURCE, 90))
    assert len(kernels) == len(keys)
    assert all(sum(key in mangled for mangled in kernels) == 1 for key in keys)


def mutated(tmp_path: Path, old: str, new: str) -> Path:
    """The kernels with one change, beside the header that they include."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in (SOURCE, CUDA_DIR / "chains.cuh")}
    assert sum(old in text for text in texts.values()) == 1
    for name, text in texts.items():
        (tmp_path / name).write_text(text.replace(old, new), encoding="utf-8")
    return tmp_path / SOURCE.name


@pytest.mark.slow
def test_a_narrowed_load_is_caught(tmp_path: Path) -> None:
    source = mutated(tmp_path, "ld.volatile.shared.v4", "ld.shared.v4")
    wrong = complaints(INSTRUCTIONS["ld.shared.b128"], kernel(source, "ld.shared.b128", 1, 90))
    assert any("not 64 LDS.128" in text for text in wrong)


@pytest.mark.slow
def test_an_add_on_the_chain_is_caught(tmp_path: Path) -> None:
    source = mutated(
        tmp_path,
        "chain[i % IN_FLIGHT] = Load::next(chain[i % IN_FLIGHT])",
        "chain[i % IN_FLIGHT] = Load::next(chain[i % IN_FLIGHT] ^ loops)",
    )
    wrong = complaints(INSTRUCTIONS["ld.shared.b32"], kernel(source, "ld.shared.b32", 1, 90))
    assert any("also in the loop" in text for text in wrong)


def test_a_chain_of_one_depends_on_itself_alone() -> None:
    loop = [line for line in kernel(SOURCE, "ld.shared.b32", 1, 90) if line.startswith("LDS")]
    for before, after in pairwise(loop):
        destination = before.split()[1].rstrip(",")
        assert f"[{destination}+0x400]" in after


def test_chains_of_wide_loads_share_no_register() -> None:
    for name in ("ld.shared.b128", "ldmatrix.x4"):
        loop = [line for line in kernel(SOURCE, name, 8, 90) if line.startswith("LDS")]
        first = [int(re.search(r" R(\d+),", line)[1]) for line in loop[:8]]  # type: ignore[index]
        taken = [register for start in first for register in range(start, start + 4)]
        assert len(set(taken)) == 32


def test_c_table_is_the_python_table() -> None:
    library = InstructionsLibrary(load_library(build_library("instructions", [SOURCE], archs=[90])))
    assert library.table == [
        (i.name, int(i.work), i.matrices, i.bytes_per_lane, i.minimum_arch) for i in INSTRUCTIONS.values()
    ]
    assert tuple(library.in_flight) == ALL_IN_FLIGHT
    assert library.handle.instructions_per_loop() == INSTRUCTIONS_PER_LOOP
    assert library.handle.instructions_image_bytes() == IMAGE_BYTES
    assert library.image_end_bytes == library.handle.instructions_image_address() + IMAGE_BYTES > IMAGE_BYTES
    for instruction in INSTRUCTIONS.values():
        index = library.index[instruction.name]
        has = [library.handle.instructions_has_kernel(index, step) != 0 for step in range(len(ALL_IN_FLIGHT))]
        assert has == [flight in instruction.in_flight for flight in ALL_IN_FLIGHT]


def test_source_is_torch_free() -> None:
    assert SOURCE.parent == CUDA_DIR
    assert not re.search(r"torch|ATen|c10|pybind", SOURCE.read_text(encoding="utf-8"))
