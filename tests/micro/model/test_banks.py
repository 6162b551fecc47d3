"""Is the bank model right? Against counts by hand, a slow and obviously right count, and the kernels' own addresses.

The figures per variant are the model's; what the hardware does is for a measurement to say.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from micro.model.banks import Kind, kstep_wavefronts, lanes_served_together, tile_store, wavefronts
from micro.model.layout import layout
from micro.model.variants import VARIANTS
from tests.ladder import TOTAL, WAVEFRONTS_A_AND_B

LANES = np.arange(32)


def slow_wavefronts(addresses: list[int], bytes_per_lane: int, lanes_together: int) -> tuple[int, int, int]:
    """Total, ideal and worst ways, byte by byte: no numpy, no cleverness."""
    total = ideal = ways = 0
    for first in range(0, len(addresses), lanes_together):
        words_in_bank: dict[int, set[int]] = defaultdict(set)
        all_words = set()
        for address in addresses[first : first + lanes_together]:
            for byte in range(address, address + bytes_per_lane):
                word = byte // 4
                words_in_bank[word % 32].add(word)
                all_words.add(word)
        busiest = max(len(words) for words in words_in_bank.values())
        total += busiest
        ideal += (len(all_words) + 31) // 32
        ways = max(ways, busiest)
    return total, ideal, ways


@pytest.mark.parametrize(
    ("addresses", "width", "total", "ways", "banks"),
    [
        (LANES * 4, 4, 1, 1, 32),  # a row of words
        (LANES * 0, 4, 1, 1, 1),  # one word for all: broadcast
        (LANES * 8, 4, 2, 2, 16),  # every other word
        (LANES * 128, 4, 32, 32, 1),  # one bank
        (LANES * 2, 2, 1, 1, 16),  # two lanes a word: shared, no conflict
        (LANES // 16 * 128 + LANES % 16 * 2, 2, 2, 2, 8),  # the same banks, other words
        (LANES * 8, 8, 2, 1, 32),  # half a warp at a time
        (LANES * 16, 16, 4, 1, 32),  # a quarter at a time
        (LANES * 32, 16, 8, 2, 16),
        (LANES * 128, 16, 32, 8, 4),
    ],
)
def test_known_accesses(addresses, width, total, ways, banks):
    cost = wavefronts(addresses, width)
    assert (cost.total, cost.ways, cost.banks) == (total, ways, banks)


@pytest.mark.parametrize(
    ("pitch", "lanes", "total", "ways"),
    [(16, 32, 4, 1), (16, 16, 2, 1), (16, 8, 1, 1), (64, 32, 16, 4), (128, 16, 16, 8), (144, 32, 4, 1)],
)
def test_ldmatrix_is_served_one_tile_at_a_time(pitch, lanes, total, ways):
    cost = wavefronts(np.arange(lanes) * pitch, 16, Kind.LDMATRIX)
    assert (cost.total, cost.ways, cost.phases) == (total, ways, lanes // 8)


@st.composite
def accesses(draw):
    """A warp reads some shape of elements from a matrix of random pitch under a random XOR swizzle."""
    kind = draw(st.sampled_from(list(Kind)))
    width = 16 if kind is Kind.LDMATRIX else draw(st.sampled_from([1, 2, 4, 8, 16]))
    lanes = draw(st.sampled_from([8, 16, 32])) if kind is Kind.LDMATRIX else 32
    columns_log2 = draw(st.integers(0, 5))
    row_step, column_step = draw(st.integers(0, 9)), draw(st.integers(0, 9))
    pitch = draw(st.integers(1, 40)) * 16
    row_shift, mask, chunk_log2 = draw(st.integers(0, 3)), draw(st.integers(0, 15)), draw(st.integers(4, 6))
    base = draw(st.integers(0, 64)) * 16
    addresses = []
    for lane in range(lanes):
        row, column = (lane >> columns_log2) * row_step, (lane & ((1 << columns_log2) - 1)) * column_step
        in_row = (column * width) ^ (((row >> row_shift) & mask) << chunk_log2)
        addresses.append(base + row * pitch + in_row)
    return kind, width, addresses


@settings(max_examples=400, deadline=None)
@given(accesses())
def test_model_equals_the_slow_count(access):
    kind, width, addresses = access
    cost = wavefronts(np.array(addresses), width, kind)
    together = {1: 32, 2: 32, 4: 32, 8: 16, 16: 8}[width]
    assert (cost.total, cost.ideal, cost.ways) == slow_wavefronts(addresses, width, together)
    assert cost.phases == len(addresses) // together
    assert cost.excess >= 0
    assert cost.phases <= cost.total <= len(addresses) * max(1, width // 4)


@settings(max_examples=100, deadline=None)
@given(accesses(), st.integers(1, 9), st.randoms(use_true_random=False))
def test_neither_whole_rows_of_banks_nor_the_order_of_lanes_matters(access, rows, random):
    kind, width, addresses = access
    together = lanes_served_together(width, kind)
    shuffled = []
    for first in range(0, len(addresses), together):
        phase = [address + 128 * rows for address in addresses[first : first + together]]
        random.shuffle(phase)
        shuffled += phase
    assert wavefronts(np.array(shuffled), width, kind) == wavefronts(np.array(addresses), width, kind)


@pytest.mark.parametrize(
    ("addresses", "width", "kind", "complaint"),
    [
        (LANES * 4, 3, Kind.PER_LANE, "bytes_per_lane 3"),
        (LANES * 4, 4, Kind.LDMATRIX, "ldmatrix"),
        (LANES * 4 + 2, 4, Kind.PER_LANE, "aligned"),
        (LANES * 4 - 4, 4, Kind.PER_LANE, "aligned"),
        (LANES[:31] * 4, 4, Kind.PER_LANE, "31"),
        (np.arange(64) * 4, 4, Kind.PER_LANE, "64"),
        (np.arange(0), 4, Kind.PER_LANE, "shape"),
    ],
)
def test_impossible_accesses_are_refused(addresses, width, kind, complaint):
    with pytest.raises(ValueError, match=complaint):
        wavefronts(addresses, width, kind)


def test_expectations_cover_the_ladder():
    assert set(TOTAL) == set(WAVEFRONTS_A_AND_B) == set(VARIANTS)


@pytest.mark.parametrize("name", VARIANTS)
def test_wavefronts_of_a_kstep(name):
    swizzled, plain = WAVEFRONTS_A_AND_B[name]
    on, off = kstep_wavefronts(VARIANTS[name], True), kstep_wavefronts(VARIANTS[name], False)
    assert on.instructions == off.instructions == TOTAL[name]
    assert (on.a, on.b) == swizzled
    assert (off.a, off.b) == plain
    assert on.excess == 0
    assert off.excess == off.total - on.total


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("swizzle", [True, False])
def test_every_warp_and_kstep_costs_the_same(name, swizzle):
    sizes = layout().constants
    first = [load.wavefronts for load in kstep_wavefronts(VARIANTS[name], swizzle).loads]
    for warp in range(sizes.warps):
        for kstep in range(sizes.k_steps):
            table = kstep_wavefronts(VARIANTS[name], swizzle, warp=warp, kstep=kstep)
            assert [load.wavefronts for load in table.loads] == first


def test_claim_four_on_the_b16_reads():
    """The claim: 8 banks and ~4-way unswizzled, ~2-way swizzled. The model: 4 banks and 4-way, then no conflict."""
    for swizzle, ways, banks in ((False, 4, 4), (True, 1, 16)):
        reads = [load for load in kstep_wavefronts(VARIANTS["A1"], swizzle).loads if load.operand == "B"]
        assert {load.instruction for load in reads} == {"ld.shared.b16"}
        assert {(load.wavefronts.ways, load.wavefronts.banks) for load in reads} == {(ways, banks)}


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("swizzle", [True, False])
def test_stores_of_a_tile_have_no_conflict(name, swizzle):
    store = tile_store(VARIANTS[name], swizzle)
    assert store.total == store.ideal == layout().constants.stage_bytes // 128
    assert sum(s.addresses.size for s in store.stores) * 16 == layout().constants.stage_bytes


def test_a_swizzle_that_bends_the_wrong_bits_is_seen():
    """The gate bites: the A addresses with row bits [1:0] instead of [2:1] conflict two-way."""
    m, k = LANES // 4, 2 * (LANES % 4)
    right = m * 64 + (k ^ (((m >> 1) & 3) << 3)) * 2
    wrong = m * 64 + (k ^ ((m & 3) << 3)) * 2
    assert wavefronts(right, 4).ways == 1
    assert wavefronts(wrong, 4).ways == 2
