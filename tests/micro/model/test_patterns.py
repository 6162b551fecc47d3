"""Patterns have the conflict degree they claim, and the image leads every lane back to its own address.

The counts and the readers here are written apart from the product: plain loops over banks, and the register maps of
the PTX ISA applied to the bytes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from micro.model.patterns import (
    IMAGE_BYTES,
    INSTRUCTIONS,
    Instruction,
    Pattern,
    Work,
    image,
    patterns_of,
    port_bytes,
    wavefronts_of,
)

SEED = 9
TOUCHING = [i for i in INSTRUCTIONS.values() if i.work is not Work.MMA]
CASES = [(i, p) for i in TOUCHING for p in patterns_of(i, random_patterns=6, seed=SEED)]
IDS = [f"{i.name}/{p.name}" for i, p in CASES]
CHAINS = [(i, p) for i, p in CASES if i.work is Work.LOAD]


def served_groups(instruction: Instruction, offsets: tuple[int, ...]) -> list[list[int]]:
    """Addresses of the lanes that are served together: all, halves, quarters, or the rows of one 8x8 tile."""
    size = {2: 32, 4: 32, 8: 16, 16: 8}[instruction.address_bytes]
    counted = offsets[: 8 * instruction.matrices] if instruction.matrices else offsets
    return [list(counted[first : first + size]) for first in range(0, len(counted), size)]


def slow_ways(instruction: Instruction, offsets: tuple[int, ...]) -> list[int]:
    """Distinct words in the busiest bank, group by group."""
    ways = []
    for group in served_groups(instruction, offsets):
        words_in_bank: dict[int, set[int]] = {}
        for address in group:
            for byte in range(address, address + instruction.address_bytes):
                words_in_bank.setdefault(byte // 4 % 32, set()).add(byte // 4)
        ways.append(max(len(words) for words in words_in_bank.values()))
    return ways


@pytest.mark.parametrize(("instruction", "pattern"), CASES, ids=IDS)
def test_degree_is_the_intended_one_in_every_group(instruction: Instruction, pattern: Pattern) -> None:
    ways = slow_ways(instruction, pattern.offsets)
    if pattern.ways is not None:
        assert ways == [pattern.ways] * len(ways)
    cost = wavefronts_of(instruction, pattern)
    assert cost is not None
    assert cost.total == sum(ways)
    assert len(pattern.offsets) == 32
    assert all(0 <= o <= IMAGE_BYTES - instruction.address_bytes for o in pattern.offsets)
    assert all(o % instruction.address_bytes == 0 for o in pattern.offsets)


def test_the_slow_count_sees_a_pattern_that_is_off_by_one_lane() -> None:
    b32 = INSTRUCTIONS["ld.shared.b32"]
    way1 = patterns_of(b32)[0]
    moved = replace(way1, offsets=(way1.offsets[1] + 128, *way1.offsets[1:]))
    assert slow_ways(b32, way1.offsets) == [1]
    assert slow_ways(b32, moved.offsets) == [2]


def test_every_degree_that_the_width_allows_is_there() -> None:
    degrees = {i.name: [p.ways for p in patterns_of(i) if p.for_fit] for i in TOUCHING}
    assert degrees["ld.shared.b16"] == degrees["ld.shared.b32"] == [1, 2, 4, 8, 16, 32]
    assert degrees["ld.shared.b64"] == [1, 2, 4, 8, 16]
    for name in ("ld.shared.b128", "ldmatrix.x1", "ldmatrix.x2.trans", "ldmatrix.x4", "stmatrix.x4"):
        assert degrees[name] == [1, 2, 4, 8]


def test_random_patterns_vary_and_repeat_with_the_seed() -> None:
    for instruction in (i for i in TOUCHING if i.work is Work.LOAD):
        found = [p for p in patterns_of(instruction, random_patterns=6, seed=SEED) if p.name.startswith("random")]
        again = [p for p in patterns_of(instruction, random_patterns=6, seed=SEED) if p.name.startswith("random")]
        other = [p for p in patterns_of(instruction, random_patterns=6, seed=SEED + 1) if p.name.startswith("random")]
        assert found == again != other
        assert not any(p.for_fit for p in found)
        costs = {wavefronts_of(instruction, p).total for p in found}  # type: ignore[union-attr]
        assert len(costs) >= 3, costs


def first_register(instruction: Instruction, bytes_: np.ndarray, offsets: tuple[int, ...]) -> list[int]:
    """What each lane's first register holds after the load, from the PTX ISA's description of the instruction."""

    def element(address: int) -> int:
        return int(bytes_[address]) | int(bytes_[address + 1]) << 8

    got = []
    for lane in range(32):
        if not instruction.matrices:
            low = element(offsets[lane])
            high = element(offsets[lane] + 2) if instruction.bytes_per_lane > 2 else 0
        elif instruction.trans:  # M[2t][g] and M[2t+1][g] of tile 0
            g, t = lane >> 2, lane & 3
            low, high = element(offsets[2 * t] + 2 * g), element(offsets[2 * t + 1] + 2 * g)
        else:  # M[g][2t] and M[g][2t+1] of tile 0
            g, t = lane >> 2, lane & 3
            low, high = element(offsets[g] + 4 * t), element(offsets[g] + 4 * t + 2)
        got.append(low | high << 16)
    return got


@pytest.mark.parametrize(("instruction", "pattern"), CHAINS, ids=[f"{i.name}/{p.name}" for i, p in CHAINS])
def test_each_lane_finds_its_own_address(instruction: Instruction, pattern: Pattern) -> None:
    bytes_ = image(instruction, pattern, SEED)
    assert bytes_.shape == (IMAGE_BYTES,)
    assert tuple(first_register(instruction, bytes_, pattern.offsets)) == pattern.offsets


def test_a_reader_of_the_wrong_form_is_led_astray() -> None:
    plain, trans = INSTRUCTIONS["ldmatrix.x4"], INSTRUCTIONS["ldmatrix.x4.trans"]
    pattern = patterns_of(plain)[1]
    assert tuple(first_register(trans, image(plain, pattern, SEED), pattern.offsets)) != pattern.offsets


@pytest.mark.parametrize("instruction", INSTRUCTIONS.values(), ids=INSTRUCTIONS)
def test_data_are_finite_and_not_zeros(instruction: Instruction) -> None:
    data = image(instruction, patterns_of(instruction)[0], SEED)
    halves = data.view(np.uint16)
    if instruction.name == "mma.f16":
        values = halves.view(np.float16).astype(np.float32)
    else:
        values = (halves.astype(np.uint32) << 16).view(np.float32)
    assert np.isfinite(values).all()
    assert np.count_nonzero(values) > 0.9 * values.size


def test_port_bytes_count_each_word_once() -> None:
    b32, x4 = INSTRUCTIONS["ld.shared.b32"], INSTRUCTIONS["ldmatrix.x4"]
    assert {p.name: port_bytes(b32, p) for p in patterns_of(b32)} == {
        **{f"way{ways}": 128 for ways in (1, 2, 4, 8, 16, 32)},
        "broadcast": 4,
    }
    assert port_bytes(x4, patterns_of(x4)[0]) == 512
