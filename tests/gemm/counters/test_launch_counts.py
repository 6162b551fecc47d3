"""Exact counts of a launch, against closed forms from the tile's sizes: 128x128x32, 8 warps, 16-byte chunks."""

from __future__ import annotations

import pytest

from gemm.counters.launch_counts import copied_lines, gemm_launch
from micro.counters.launch_counts import KEYS, micro_launch
from micro.model.arm_names import Work
from micro.model.variants import VARIANTS, BLayout
from tests.ladder import LOADS, TOTAL, WAVEFRONTS

CHUNKS_PER_TILE = 2 * 128 * 32 * 2 // 16
STORES_PER_TILE = CHUNKS_PER_TILE // 32
BYTES_PER_WAVEFRONT = 128
WAVEFRONTS_PER_TILE = 2 * 128 * 32 * 2 // BYTES_PER_WAVEFRONT


@pytest.mark.parametrize("variant", TOTAL)
@pytest.mark.parametrize("swizzle", [True, False])
def test_a_micro_launch_is_its_loop_and_the_fill_of_its_ring(variant: str, swizzle: bool) -> None:
    counts = micro_launch(variant, swizzle, Work.LOAD_MMA, blocks=10, loops=7, stages=3)
    warp_ksteps = 10 * 7 * 3 * 2 * 8
    assert counts.warp_ksteps == warp_ksteps
    assert counts.total("lds") + counts.total("ldsm") == TOTAL[variant] * warp_ksteps
    assert (counts.total("ldsm") > 0) == any(form.startswith("LDSM") for form in LOADS[variant])
    assert counts.total("hmma") == 16 * warp_ksteps
    assert counts.total("sts") == 10 * 3 * STORES_PER_TILE
    assert counts.total("store_wavefronts") - counts.total("store_conflicts") == 10 * 3 * WAVEFRONTS_PER_TILE
    assert counts.total("ldgsts") == 0
    # A fragment k-step is 3072 bytes: 24 wavefronts; b16 reads move half a wavefront each, 16 of them for 8.
    assert counts.total("load_wavefronts") - counts.total("load_conflicts") == WAVEFRONTS[variant] * warp_ksteps
    assert (counts.total("load_conflicts") == 0) == swizzle


def test_the_kinds_of_load_add_up_to_what_the_pipe_counts() -> None:
    counts = micro_launch("A3", False, Work.LOAD, blocks=1, loops=1, stages=3)
    assert counts.total("load_wavefronts") == counts.total("lds_wavefronts") + counts.total("ldsm_wavefronts") > 0
    assert counts.total("hmma") == 0
    assert {key for part in counts.as_dict().values() for key in part} <= set(KEYS)


def test_the_mma_kernel_loads_its_fragments_once() -> None:
    counts = micro_launch("A1", True, Work.MMA, blocks=4, loops=9, stages=3)
    assert counts.total("lds") == 4 * 8 * TOTAL["A1"]
    assert counts.total("hmma") == 16 * 4 * 9 * 3 * 2 * 8


@pytest.mark.parametrize("variant", TOTAL)
@pytest.mark.parametrize("swizzle", [True, False])
def test_a_gemm_launch_stores_and_reads_every_tile_once(variant: str, swizzle: bool) -> None:
    counts = gemm_launch(variant, swizzle, 256, 384, 160)
    tiles = 2 * 3 * 5
    assert counts.warp_ksteps == tiles * 2 * 8
    assert counts.total("lds") + counts.total("ldsm") == TOTAL[variant] * counts.warp_ksteps
    assert counts.total("ldgsts") == tiles * STORES_PER_TILE
    assert 32 * counts.total("ldgsts_sectors") == tiles * 2 * 128 * 32 * 2
    # A line of 128 bytes a wavefront: 128 rows of 64 bytes are 128 lines, 32 rows of 256 bytes are 64.
    assert counts.total("ldgsts_wavefronts") == tiles * (
        128 + (64 if VARIANTS[variant].b_layout is BLayout.NATURAL else 128)
    )
    assert counts.total("sts") == counts.total("store_wavefronts") == 0


def test_past_the_last_tile_the_copies_of_two_turns_are_issued_with_every_lane_off() -> None:
    counts = gemm_launch("A1", True, 2048, 2048, 512)
    # An H200 counted 147456 at this shape: 8 warps of 256 blocks, 4 copies a tile, 16 tiles and 2 turns more.
    assert counts.total("ldgsts_issued") == 147_456 == 256 * 8 * 4 * (16 + 2)
    assert counts.total("ldgsts") == 131_072
    assert counts.total("ldgsts_off") == 16_384


@pytest.mark.parametrize(
    ("variant", "counted", "left_each"), [("A1", 1_146_880, 22), ("A3", 1_146_880, 22), ("A2", 1_507_328, 28)]
)
def test_wavefronts_of_the_copies_that_copy_and_of_those_that_do_not(
    variant: str, counted: int, left_each: int
) -> None:
    counts = gemm_launch(variant, True, 2048, 2048, 512)
    assert counted - counts.total("ldgsts_wavefronts") == left_each * counts.total("ldgsts_off")


def test_lines_depend_on_the_pitch_where_rows_share_them() -> None:
    assert copied_lines(128, 64, 1024) == 128
    assert copied_lines(128, 64, 64) == 64  # k = 32: two rows a line
    assert copied_lines(32, 256, 4096) == 64
    assert copied_lines(32, 256, 4096, 64) == 96  # off the lines' start, a row touches three
