"""What must a thread of the contention kernel hand back, if its loop did what its arm says?

Three words: the sum of its accumulators, a fold of what its instructions left behind, a fold of what its copies
brought, all computed here from the inputs by the address formulas of ``contention.cu`` and the fragment maps of the PTX
ISA. The trap: a loop that did less than it claims looks cheap, so a figure without these proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from micro.bench.contention.design import MMAS, PASSES_PER_LOOP, WARPS, Arm
from micro.model.layout import layout
from stats.base.errors import BenchError

_HELD, _STORED = 24, 4  # of contention.cu: registers that take turns, words of a lane that stores write
_COPY_WORDS, _LINE_WORDS, _WARP_WORDS = 128, 32, 128


@dataclass(frozen=True)
class Inputs:
    """``image`` uint32 [words] of finite bf16, for shared memory; ``source`` uint32 [warps, words], for the copies."""

    image: NDArray[np.uint32]
    source: NDArray[np.uint32]

    @classmethod
    def random(cls, image_bytes: int, region_bytes: int, seed: int) -> Inputs:
        """Fresh values, never zeros: power, and so clocks, depend on the data."""
        rng = np.random.default_rng(seed)
        values = rng.standard_normal(image_bytes // 2, dtype=np.float32).view(np.uint32)
        image = np.right_shift(values, 16).astype(np.uint16).view(np.uint32)
        return cls(image, rng.integers(1, 2**32, (WARPS, region_bytes // 4), dtype=np.uint32))

    def words(self, line: int) -> NDArray[np.uint32]:
        """The word that each lane finds ``line`` lines of 128 bytes behind its own; uint32 [warps, 32]."""
        at = np.arange(WARPS)[:, None] * _WARP_WORDS + line * _LINE_WORDS + np.arange(32)
        found: NDArray[np.uint32] = self.image[at]
        return found


@dataclass(frozen=True)
class Expected:
    """What each thread [warps, 32] must hand back; ``addends`` is the sum of magnitudes behind ``total``."""

    total: NDArray[np.float64]
    addends: NDArray[np.float64]
    left: NDArray[np.uint32]
    brought: NDArray[np.uint32]


def _fold(words: list[NDArray[np.uint32]]) -> NDArray[np.uint32]:
    fold = np.zeros((WARPS, 32), np.uint32)
    for word in words:
        fold = fold * np.uint32(31) + word
    return fold


def _fragment(inputs: Inputs, registers: int, index: int, *, trans: bool) -> list[NDArray[np.uint32]]:
    """Registers of the fragment ``index`` sets behind a warp's first word, as ldmatrix brings them (PTX ISA)."""
    found = [inputs.words(4 * index + register) for register in range(registers)]
    if trans:
        tiles = [word.view(np.uint16).reshape(WARPS, 8, 8) for word in found]
        found = [np.ascontiguousarray(tile.swapaxes(1, 2)).view(np.uint32).reshape(WARPS, 32) for tile in tiles]
    return found


def _matrix(registers: list[NDArray[np.uint32]], where: list[NDArray[np.int32]], *, b: bool) -> NDArray[np.float64]:
    """The fragment's registers as matrices [warps, rows, columns]; two elements of a register adjoin in k."""
    made = np.zeros((WARPS, 16, 8 if b else 16))
    for word, place in zip(registers, where, strict=True):
        row, column = np.asarray(place).T
        made[:, row, column] = (word << np.uint32(16)).view(np.float32)
        high = (word & np.uint32(0xFFFF0000)).view(np.float32)
        made[:, row + b, column + (not b)] = high
    return made


def _products(arm: Arm, inputs: Inputs) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sum over a thread's accumulators of what one pass adds, and of its magnitude; [warps, 32]."""
    where = layout()
    x4, x2 = arm.kind.name == "ldmatrix.x4", arm.kind.name.startswith("ldmatrix.x2")
    a_sets, b_sets = (arm.instructions if x4 else 2), (arm.instructions if x2 else 2)
    a = [_fragment(inputs, 4, index, trans=False) for index in range(a_sets)]
    b = [_fragment(inputs, 2, index, trans=arm.kind.name.endswith(".trans")) for index in range(b_sets)]
    a_at, b_at = [where.a_fragment(r) for r in range(4)], [where.b_fragment(r) for r in range(2)]
    total, addends = np.zeros((WARPS, 32)), np.zeros((WARPS, 32))
    for m in range(arm.mmas):
        left = _matrix(a[m * a_sets // arm.mmas if x4 else m % 2], a_at, b=False)
        right = _matrix(b[m * b_sets // arm.mmas if x2 else m % 2], b_at, b=True)
        product = left @ right
        for register in range(4):
            row, column = np.asarray(where.c_fragment(register)).T
            total += product[:, row, column]
            addends += np.abs(product[:, row, column])
    return total, addends


def _left_behind(arm: Arm, inputs: Inputs, passes: int) -> NDArray[np.uint32]:
    name, count = arm.kind.name, arm.instructions
    held = min(count, _HELD)
    if name.startswith("ld.shared"):  # each register holds the last word that it was given
        last = [held * ((count - 1 - register) // held) + register for register in range(held)]
        mask = np.uint32(0xFFFF if name.endswith("b16") else 0xFFFFFFFF)
        return _fold([inputs.words(line) & mask for line in last])
    if name == "st.shared.b32":
        return _fold([inputs.words(word + 4) for word in range(_STORED)])
    if name == "prmt":
        high = inputs.words(0) << np.uint32(16)
        return _fold([inputs.words(word + 4) & np.uint32(0xFFFF) | high for word in range(held)])
    if arm.with_mma or name == "none":  # ldmatrix: operands of the mma, which the sum of accumulators tells
        return _fold([])
    loaded = [word for index in range(count) for word in _fragment(inputs, 4, index, trans=False)]
    added: NDArray[np.uint32] = np.uint32(passes) * np.sum(loaded, axis=0, dtype=np.uint32)
    return added


def expected_sinks(arm: Arm, inputs: Inputs, loops: int) -> Expected:
    """What every thread of a block must hand back after ``loops`` trips, from the inputs alone."""
    passes = loops * PASSES_PER_LOOP
    total, addends = _products(arm, inputs)
    places = PASSES_PER_LOOP * (arm.copies or 0)
    start = (loops - 1) * places * _COPY_WORDS % inputs.source.shape[1]
    lanes = np.arange(32) * 4
    brought = [inputs.source[:, start + i * _COPY_WORDS + lanes + word] for i in range(places) for word in range(4)]
    started = sum(range(MMAS))  # accumulators start from 0, 1, ... 15
    return Expected(
        started + passes * total, started + passes * addends, _left_behind(arm, inputs, passes), _fold(brought)
    )


def check_sinks(arm: str, sinks: NDArray[np.uint32], expected: Expected) -> None:
    """Raise BenchError unless all threads, sinks [3, blocks, warps, 32], hand back what they must: the loop ran."""
    total = sinks[0].view(np.float32).astype(np.float64)
    # fp32 accumulation of equal addends drifts, and the unit truncates; one mma of sixteen left out is 6 %.
    if not (np.abs(total - expected.total) <= 0.005 * expected.addends).all():
        raise BenchError(f"{arm}: the sum of the accumulators is not what the mma of every pass add up to")
    for found, wanted, what in (
        (sinks[1], expected.left, "what the instructions left behind"),
        (sinks[2], expected.brought, "what cp.async brought"),
    ):
        wrong = np.argwhere(found != wanted)
        if len(wrong):
            block, warp, lane = wrong[0]
            raise BenchError(
                f"{arm}: {what} is not what its source holds: block {block}, warp {warp}, lane {lane} "
                f"({len(wrong)} threads)"
            )
