"""The machine code of contention: each timed loop holds four passes of what its arm says, and nothing else that counts.

nvcc and a disassembler only; no device. Each trap that the source names is also sprung: a source without its remedy
fails.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from micro.bench.contention.cells import SOURCE, ContentionLibrary
from micro.bench.contention.design import ARMS, KINDS, PASSES_PER_LOOP, WARPS, Arm
from micro.code.loops import Loop, main_loop
from micro.code.sass import Function, Instruction, SassError, disassemble
from micro.gpu.build import build_library, compile_cubin, load_library
from tests.makers.compiled import SLOW_80_AND_90

pytestmark = pytest.mark.cuda_build

MMA = "HMMA.16816.F32.BF16"
MEMORY = {"LD", "LDS", "LDSM", "LDG", "LDL", "LDC", "ST", "STS", "STG", "STL", "ATOMS", "ATOMG", "RED", "LDGSTS", "BAR"}
VOID_LOADS = 3  # @!PT LDS RZ, [RZ], which ptxas sets before the first cp.async of a pass
COUNTER = 16  # instructions of the loop's counter, of the walk of its copies, and of its warp barriers
TEMPLATE = re.compile(r"KindE(\d)ELi(\d+)ELb([01])ELi(n?\d+)E")


def key(kind: int, instructions: int, with_mma: bool, copies: int) -> tuple[int, int, bool, int]:
    return kind, instructions, with_mma, copies


def key_of(arm: Arm) -> tuple[int, int, bool, int]:
    return key(KINDS.index(arm.kind), arm.instructions, arm.with_mma, -1 if arm.copies is None else arm.copies)


@cache
def functions(source: Path, arch: int) -> dict[tuple[int, int, bool, int], Function]:
    found = {}
    for function in disassemble(compile_cubin(source, arch)):
        kind, count, with_mma, copies = TEMPLATE.search(function.name).groups()  # type: ignore[union-attr]
        found[key(int(kind), int(count), with_mma == "1", int(copies.replace("n", "-")))] = function
    return found


def is_void(instruction: Instruction) -> bool:
    return instruction.guard == "!PT"


def timed_loop(arm: Arm, function: Function) -> Loop:
    timed = {arm.kind.machine, MMA}
    return main_loop(function, lambda i: i.opcode in timed and not is_void(i), "what is timed")


def complaints(arm: Arm, function: Function) -> list[str]:
    """What is wrong with the timed loop of an arm; empty if nothing is."""
    loop = timed_loop(arm, function).instructions
    counts = Counter(i.opcode if i.base != "LDGSTS" else i.base for i in loop if not is_void(i))
    wanted = {MMA: arm.mmas, "LDGSTS": arm.copies or 0, "LDGDEPBAR": arm.copies is not None}
    wanted |= {arm.kind.machine: arm.instructions} if arm.kind.machine else {}
    wrong = [
        f"{counts[opcode]} {opcode}, not {PASSES_PER_LOOP * number}"
        for opcode, number in wanted.items()
        if counts[opcode] != PASSES_PER_LOOP * number
    ]
    rest = {opcode: number for opcode, number in counts.items() if opcode not in wanted}
    wrong += [f"also {number} {opcode}" for opcode, number in rest.items() if opcode.split(".")[0] in MEMORY]
    sums = 2 * PASSES_PER_LOOP * arm.instructions if arm.kind.name == "ldmatrix.x4" and not arm.with_mma else 0
    if sum(rest.values()) > COUNTER + sums + 4 * PASSES_PER_LOOP:
        wrong.append(f"more than a counter: {rest}")
    void = sum(map(is_void, loop))
    if void > (PASSES_PER_LOOP * VOID_LOADS if arm.copies else 0):
        wrong.append(f"{void} void instructions")
    wrong += sorted({f"spills by {i.opcode}" for i in function.instructions if i.base in ("LDL", "STL")})
    return wrong


@pytest.mark.parametrize("arch", SLOW_80_AND_90)
@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: arm.name)
def test_timed_loop_holds_four_passes_of_the_arm(arm: Arm, arch: int) -> None:
    assert complaints(arm, functions(SOURCE, arch)[key_of(arm)]) == []


def test_every_kernel_of_the_source_is_an_arm() -> None:
    assert set(functions(SOURCE, 90)) == {key_of(arm) for arm in ARMS}


def mutated(folder: Path, *changes: tuple[str, str]) -> Path:
    text = SOURCE.read_text(encoding="utf-8")
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (folder / SOURCE.name).write_text(text, encoding="utf-8")
    return folder / SOURCE.name


def arm_named(name: str) -> Arm:
    return next(arm for arm in ARMS if arm.name == name)


@pytest.mark.slow
def test_without_their_remedies_loads_are_dropped_and_merged(tmp_path: Path) -> None:
    plain = ("ld.volatile.shared.b32", "ld.shared.b32")
    source = mutated(tmp_path, plain, ("      __syncwarp();\n", ""))
    found = functions(source, 90)
    for name, opcode in (("ld.shared.b32/n48+mma", "LDS"), ("ldmatrix.x4/n6", "LDSM")):
        arm = arm_named(name)
        try:
            wrong = complaints(arm, found[key_of(arm)])
        except SassError as error:  # all of them, so that no loop is left to look at
            wrong = [str(error)]
        assert any(opcode in text or "no loop" in text for text in wrong), (name, wrong)


@pytest.mark.slow
def test_too_many_registers_are_seen_to_spill(tmp_path: Path) -> None:
    more = ("A_SETS = X4 ? N : 2,", "A_SETS = X4 ? N : 4,")
    source = mutated(tmp_path, more, ("constexpr int HELD = 24;", "constexpr int HELD = 48;"))
    arm = arm_named("ld.shared.b32/n48+mma")
    assert any("spills" in text for text in complaints(arm, functions(source, 90)[key_of(arm)]))


def test_c_table_is_the_python_table() -> None:
    library = ContentionLibrary(load_library(build_library("contention", [SOURCE], archs=[90])))
    assert library.table == [(arm.name, *key_of(arm)[:2], arm.mmas, key_of(arm)[3]) for arm in ARMS]
    assert (library.warps, library.passes_per_loop) == (WARPS, PASSES_PER_LOOP)
    rings = [needed - library.image_bytes for needed in library.shared_bytes]
    assert rings == [WARPS * PASSES_PER_LOOP * 512 * (arm.copies or 0) for arm in ARMS]
