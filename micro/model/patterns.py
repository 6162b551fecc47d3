"""Which instructions are measured, and which addresses does each lane of a warp give them?

A pattern is 32 byte offsets into an image of shared memory. The regular ones put a chosen number of distinct words into
the busiest bank of every group of lanes that is served together (``way1`` is free of conflicts); ``broadcast`` gives
all lanes one address; the ``random`` ones are never used for a fit and test it. ``image`` writes the chain into the
bytes: what a lane's first register receives is that lane's next offset, which is the same one again. The trap: with
ldmatrix a lane receives words of *other* lanes' rows, so the link of a lane lies where another lane points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from micro.model.banks import Kind, Wavefronts, lanes_served_together, wavefronts, words_per_phase

IMAGE_BYTES = 8192  # IMAGE_BYTES of instructions.cu; a test holds them equal
_LINE_BYTES = 128
_WARP = 32


class Work(IntEnum):
    """What an instruction does (Kind of instructions.cu)."""

    LOAD = 0
    MMA = 1
    STORE = 2


@dataclass(frozen=True)
class Instruction:
    """One instruction: the meaning of a row of the C table, and the machine instruction that it must become."""

    name: str
    work: Work
    matrices: int  # 8x8 tiles of ldmatrix and stmatrix, else 0
    bytes_per_lane: int  # into or out of registers; 0 for mma
    machine: str  # the mnemonic that the timed loop must hold, and nothing else but its counter
    minimum_arch: int = 80

    @property
    def trans(self) -> bool:
        """Whether the tiles are transposed on their way."""
        return self.name.endswith(".trans")

    @property
    def address_bytes(self) -> int:
        """Bytes that one lane's address stands for: a 16-byte row for the matrix forms."""
        return 16 if self.matrices else self.bytes_per_lane

    @property
    def lanes_addressed(self) -> int:
        """Lanes whose addresses count; the others' are ignored by the hardware."""
        return 8 * self.matrices or _WARP

    @property
    def kind(self) -> Kind:
        """How the bank model groups the lanes."""
        return Kind.LDMATRIX if self.matrices else Kind.PER_LANE

    @property
    def lanes_together(self) -> int:
        """Lanes that are served together."""
        return lanes_served_together(self.address_bytes, self.kind)

    @property
    def in_flight(self) -> tuple[int, ...]:
        """Instructions of one warp that can be kept under way; a store returns nothing to wait for."""
        return (1,) if self.work is Work.STORE else (1, 2, 4, 8)

    @property
    def bytes_per_instruction(self) -> int:
        """Bytes that one warp-wide instruction moves into or out of registers."""
        return _WARP * self.bytes_per_lane


INSTRUCTIONS: dict[str, Instruction] = {
    instruction.name: instruction
    for instruction in (
        Instruction("ld.shared.b16", Work.LOAD, 0, 2, "LDS.U16"),
        Instruction("ld.shared.b32", Work.LOAD, 0, 4, "LDS"),
        Instruction("ld.shared.b64", Work.LOAD, 0, 8, "LDS.64"),
        Instruction("ld.shared.b128", Work.LOAD, 0, 16, "LDS.128"),
        Instruction("ldmatrix.x1", Work.LOAD, 1, 4, "LDSM.16.M88"),
        Instruction("ldmatrix.x2", Work.LOAD, 2, 8, "LDSM.16.M88.2"),
        Instruction("ldmatrix.x4", Work.LOAD, 4, 16, "LDSM.16.M88.4"),
        Instruction("ldmatrix.x1.trans", Work.LOAD, 1, 4, "LDSM.16.MT88"),
        Instruction("ldmatrix.x2.trans", Work.LOAD, 2, 8, "LDSM.16.MT88.2"),
        Instruction("ldmatrix.x4.trans", Work.LOAD, 4, 16, "LDSM.16.MT88.4"),
        Instruction("mma.bf16", Work.MMA, 0, 0, "HMMA.16816.F32.BF16"),
        Instruction("mma.f16", Work.MMA, 0, 0, "HMMA.16816.F32"),
        Instruction("stmatrix.x1", Work.STORE, 1, 4, "STSM.16.M88", 90),
        Instruction("stmatrix.x2", Work.STORE, 2, 8, "STSM.16.M88.2", 90),
        Instruction("stmatrix.x4", Work.STORE, 4, 16, "STSM.16.M88.4", 90),
    )
}


@dataclass(frozen=True)
class Pattern:
    """32 byte offsets into the image, by lane; ``ways`` is the intended conflict degree, None if none is intended."""

    name: str
    offsets: tuple[int, ...]
    ways: int | None = None

    @property
    def for_fit(self) -> bool:
        """Whether a fit may use it: the regular degrees only; broadcast and random patterns test the fit."""
        return self.ways is not None and self.name != "broadcast"


def _regular(instruction: Instruction, ways: int) -> Pattern:
    """``ways`` distinct words in every bank that is touched, in each group of lanes served together."""
    together = instruction.lanes_together
    columns = together // ways
    unit = max(4, instruction.address_bytes)
    offsets = []
    for lane in range(instruction.lanes_addressed):
        group, place = divmod(lane, together)
        line = group * ways + place // columns
        offsets.append(line * _LINE_BYTES + place % columns * unit)
    return Pattern(f"way{ways}", _repeat(offsets), ways)


def _repeat(offsets: Sequence[int]) -> tuple[int, ...]:
    """Lanes whose address is ignored repeat those that count, so that they stay inside the image."""
    return tuple(int(offsets[lane % len(offsets)]) for lane in range(_WARP))


def _random(instruction: Instruction, index: int, seed: int) -> Pattern:
    """Addresses drawn at random, crowded into ever fewer columns as ``index`` grows, so that conflicts vary."""
    code = list(INSTRUCTIONS).index(instruction.name)
    rng = np.random.default_rng(np.random.SeedSequence(entropy=seed, spawn_key=(code, index)))
    unit = instruction.address_bytes
    columns = max(1, (_LINE_BYTES // unit) >> (index % 4))
    # ldmatrix: rows are distinct, since a row that two lanes share would have to hold two links at one place.
    lines = IMAGE_BYTES // _LINE_BYTES if instruction.matrices or index % 2 == 0 else 4
    count = instruction.lanes_addressed
    cells = rng.choice(lines * columns, size=count, replace=not instruction.matrices)
    return Pattern(f"random{index}", _repeat(list(cells // columns * _LINE_BYTES + cells % columns * unit)))


def patterns_of(instruction: Instruction, *, random_patterns: int = 0, seed: int = 0) -> list[Pattern]:
    """Every pattern measured with an instruction: regular degrees as its width allows, broadcast, and random ones.

    mma reads registers only and has one empty pattern; stores of several lanes to one address are not measured, since
    their result is undefined.
    """
    if instruction.work is Work.MMA:
        return [Pattern("registers", (0,) * _WARP)]
    degrees = [ways for ways in (1, 2, 4, 8, 16, 32) if ways <= instruction.lanes_together]
    found = [_regular(instruction, ways) for ways in degrees]
    if instruction.work is not Work.STORE:
        found.append(Pattern("broadcast", (0,) * _WARP, 1))
    if instruction.work is Work.LOAD:
        found += [_random(instruction, index, seed) for index in range(random_patterns)]
    return found


def wavefronts_of(instruction: Instruction, pattern: Pattern) -> Wavefronts | None:
    """What the bank model says of the very offsets that run; None for mma, which does not touch shared memory."""
    if instruction.work is Work.MMA:
        return None
    offsets = np.asarray(pattern.offsets[: instruction.lanes_addressed])
    return wavefronts(offsets, instruction.address_bytes, instruction.kind)


def port_bytes(instruction: Instruction, pattern: Pattern) -> int:
    """Bytes that shared memory must read or write for one instruction: its distinct words, each counted once."""
    if instruction.work is Work.MMA:
        return 0
    offsets = np.asarray(pattern.offsets[: instruction.lanes_addressed])
    return 4 * len(np.unique(words_per_phase(offsets, instruction.address_bytes, instruction.kind)))


def image(instruction: Instruction, pattern: Pattern, seed: int) -> NDArray[np.uint8]:
    """The bytes of shared memory, uint8 [IMAGE_BYTES]: random finite data, and the links of the chain.

    The data are bf16 in [-1, 1) (f16 for mma.f16). Registers and rows are those of the PTX ISA's ldmatrix: lane i gets
    words 4·(i/4)…+3 of tile 0's row i/4, or, transposed, elements of rows 2·(i%4) and 2·(i%4)+1 in column i/4.
    """
    values = np.random.default_rng(seed).uniform(-1, 1, IMAGE_BYTES // 2).astype(np.float32)
    if instruction.name == "mma.f16":
        return values.astype(np.float16).view(np.uint8)
    halves = (values.view(np.uint32) >> 16).astype(np.uint16)
    if instruction.work is not Work.LOAD:
        return halves.view(np.uint8)
    words = halves.view(np.uint32)  # of the same bytes
    offsets = pattern.offsets
    for lane, offset in enumerate(offsets):
        row, column = divmod(lane, 4)
        if not instruction.matrices and instruction.bytes_per_lane == 2:
            halves[offset // 2] = offset
        elif not instruction.matrices:
            words[offset // 4] = offset
        elif not instruction.trans:
            words[offsets[row] // 4 + column] = offset
        else:
            halves[offsets[2 * column] // 2 + row] = offset
            halves[offsets[2 * column + 1] // 2 + row] = 0  # the upper half of a 32-bit offset
    return halves.view(np.uint8)
