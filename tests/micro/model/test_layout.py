"""layout.cuh against maps written here a second time: every element has its own place, every lane gets its fragment."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from micro.bench.read_path.library import expected_fragments, random_tiles
from micro.model.layout import layout
from micro.model.variants import VARIANTS, BLayout, ReadMode

SIZES = layout().constants
BOTH = [False, True]


def test_constants_are_those_of_the_experiment() -> None:
    assert (SIZES.bm, SIZES.bn, SIZES.bk) == (128, 128, 32)
    assert (SIZES.warps_m, SIZES.warps_n, SIZES.warp_m, SIZES.warp_n) == (2, 4, 64, 32)
    assert SIZES.m_fragments * SIZES.n_fragments == 16
    assert SIZES.bytes_per_kstep == 4 * 512 + 4 * 256


@pytest.mark.parametrize("swizzle", BOTH)
def test_a_tile_is_a_bijection(swizzle: bool) -> None:
    offsets = {layout().a_offset(swizzle, m, k) for m in range(SIZES.bm) for k in range(SIZES.bk)}
    assert offsets == set(range(0, SIZES.a_tile_bytes, 2))


@pytest.mark.parametrize("swizzle", BOTH)
@pytest.mark.parametrize("b_layout", list(BLayout))
def test_b_tile_is_a_bijection(b_layout: BLayout, swizzle: bool) -> None:
    offsets = {layout().b_offset(b_layout, swizzle, k, n) for k in range(SIZES.bk) for n in range(SIZES.bn)}
    assert offsets == set(range(0, SIZES.b_tile_bytes, 2))


@pytest.mark.parametrize("swizzle", BOTH)
def test_chunks_keep_their_eight_elements_together_and_cover_the_tile(swizzle: bool) -> None:
    starts = set()
    for chunk in range(SIZES.a_chunks):
        m, k = layout().a_chunk(chunk)
        start = layout().a_chunk_offset(swizzle, chunk)
        assert start % 16 == 0
        assert [layout().a_offset(swizzle, m, k + i) for i in range(8)] == list(range(start, start + 16, 2))
        starts.add(start)
    assert starts == set(range(0, SIZES.a_tile_bytes, 16))
    for b_layout in BLayout:
        starts = set()
        for chunk in range(SIZES.b_chunks):
            row, col = layout().b_chunk(b_layout, chunk)
            start = layout().b_chunk_offset(b_layout, swizzle, chunk)
            natural = b_layout is BLayout.NATURAL
            at = [(row, col + i) if natural else (col + i, row) for i in range(8)]
            assert [layout().b_offset(b_layout, swizzle, k, n) for k, n in at] == list(range(start, start + 16, 2))
            starts.add(start)
        assert starts == set(range(0, SIZES.b_tile_bytes, 16))


def test_swizzles_are_the_published_formulas() -> None:
    for row, col in itertools.product(range(128), range(0, 128, 8)):
        assert layout().swizzle("a", row, col) == col ^ (((row >> 1) % 4) * 8)
        assert layout().swizzle("bt", row, col) == layout().swizzle("a", row, col)
        assert layout().swizzle("b", row, col) == col ^ ((row % 8) * 8)


# An independent statement of the mma.m16n8k16 map, quadrant by quadrant, as the PTX ISA draws it.
A_QUADRANTS = {0: (0, 0), 1: (8, 0), 2: (0, 8), 3: (8, 8)}


def test_fragment_maps_equal_the_isa_drawing() -> None:
    for lane in range(32):
        group, thread = divmod(lane, 4)
        for reg, (row, col) in A_QUADRANTS.items():
            assert tuple(layout().a_fragment(reg)[lane]) == (row + group, col + 2 * thread)
        for reg in range(2):
            assert tuple(layout().b_fragment(reg)[lane]) == (8 * reg + 2 * thread, group)
        for reg in range(4):
            assert tuple(layout().c_fragment(reg)[lane]) == (8 * (reg // 2) + group, 2 * thread + reg % 2)


def ldmatrix(memory: np.ndarray, addresses: np.ndarray, tiles: int, transposed: bool) -> np.ndarray:
    """What ldmatrix gives each lane, from the ISA's text: uint32 [tiles, 32]; ``memory`` uint16 by byte offset // 2."""
    out = np.empty((tiles, 32), np.uint32)
    for tile in range(tiles):
        matrix = np.stack([memory[at // 2 : at // 2 + 8] for at in addresses[8 * tile : 8 * tile + 8]])
        if transposed:
            matrix = matrix.T
        pairs = matrix.reshape(8, 4, 2).astype(np.uint32)
        out[tile] = (pairs[..., 0] | pairs[..., 1] << 16).reshape(32)
    return out


@pytest.mark.parametrize("swizzle", BOTH)
@pytest.mark.parametrize("name", list(VARIANTS))
def test_every_variant_reads_its_fragments(name: str, swizzle: bool) -> None:
    """Write tiles chunk by chunk as the kernels do, load as each variant does, and compare with the fragment map."""
    variant = VARIANTS[name]
    tiles = random_tiles(1, SIZES, np.random.default_rng(7))
    a_memory, b_memory = np.zeros(SIZES.a_tile_bytes // 2, np.uint16), np.zeros(SIZES.b_tile_bytes // 2, np.uint16)
    for m, k in itertools.product(range(SIZES.bm), range(SIZES.bk)):
        a_memory[layout().a_offset(swizzle, m, k) // 2] = tiles.a[0, m, k]
    for k, n in itertools.product(range(SIZES.bk), range(SIZES.bn)):
        b_memory[layout().b_offset(variant.b_layout, swizzle, k, n) // 2] = tiles.b[0, k, n]
    expected = expected_fragments(tiles)[0]
    word = lambda memory, at: memory[at // 2].astype(np.uint32) | memory[at // 2 + 1].astype(np.uint32) << 16  # noqa: E731
    for kstep, warp in itertools.product(range(SIZES.k_steps), range(SIZES.warps)):
        m0, n0 = warp // SIZES.warps_n * SIZES.warp_m, warp % SIZES.warps_n * SIZES.warp_n
        found = []
        for fragment in range(SIZES.m_fragments):
            at = [
                layout().a_load_offsets(variant.read_mode, swizzle, m0 + 16 * fragment, 16 * kstep, load)
                for load in range(layout().a_loads(variant.read_mode))
            ]
            if layout().a_load_bytes(variant.read_mode) == 16:
                found.extend(ldmatrix(a_memory, at[0], 4, transposed=False))
            else:
                found.extend(word(a_memory, lanes) for lanes in at)
        for fragment in range(SIZES.n_fragments):
            at = [
                layout().b_load_offsets(
                    variant.read_mode, variant.b_layout, swizzle, 16 * kstep, n0 + 8 * fragment, load
                )
                for load in range(layout().b_loads(variant.read_mode, variant.b_layout))
            ]
            width = layout().b_load_bytes(variant.read_mode, variant.b_layout)
            if width == 16:
                found.extend(ldmatrix(b_memory, at[0], 2, transposed=variant.b_layout is BLayout.NATURAL))
            elif width == 2:
                halves = [b_memory[lanes // 2].astype(np.uint32) for lanes in at]
                found.extend([halves[0] | halves[1] << 16, halves[2] | halves[3] << 16])
            else:
                found.extend(word(b_memory, lanes) for lanes in at)
        np.testing.assert_array_equal(np.stack(found, axis=-1), expected[kstep, warp])


def test_forgetting_the_swizzle_reads_other_data() -> None:
    """The gate can fail: addresses without the swizzle, over tiles written with it, give other fragments."""
    written, read = (layout().a_load_offsets(ReadMode.LD_SHARED, swizzle, 0, 0, 0) for swizzle in (True, False))
    assert (written != read).any()
