"""The gates of the micro-benchmark: wrong fragments and wrong sinks are found, named and refused."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from micro.bench.read_path.arms import check_fragments, expected_sinks
from micro.bench.read_path.library import expected_fragments, random_tiles
from micro.model.arm_names import MMA_ARM, Work, arm_name, parse_arm
from micro.model.layout import layout
from stats.base.errors import BenchError

TILES = random_tiles(3, layout().constants, np.random.default_rng(3))
FRAGMENTS = expected_fragments(TILES)


def test_equal_fragments_pass_and_one_wrong_register_is_named() -> None:
    check_fragments(FRAGMENTS.copy(), FRAGMENTS, "A1")
    wrong = FRAGMENTS.copy()
    wrong[1, 0, 5, 17, 3] ^= 1
    with pytest.raises(
        BenchError, match=r"A1: wrong fragment: stage 1, k-step 0, warp 5, lane 17, register 3 holds .* \(1 of"
    ):
        check_fragments(wrong, FRAGMENTS, "A1")


def test_sinks_fold_every_register_of_every_stage_and_kstep() -> None:
    slow = [
        functools.reduce(lambda x, y: x ^ y, (int(v) for v in FRAGMENTS[:, :, warp, lane].ravel()))
        for warp in range(8)
        for lane in range(32)
    ]
    assert expected_sinks(FRAGMENTS).tolist() == slow


def test_tiles_are_finite_random_and_never_zero_everywhere() -> None:
    values = (TILES.a.astype(np.uint32) << 16).view(np.float32)
    assert np.isfinite(values).all()
    assert 0.9 < values.std() < 1.1
    assert not np.array_equal(TILES.a, random_tiles(3, layout().constants, np.random.default_rng(4)).a)


def test_arm_names_say_what_they_are() -> None:
    for variant in ("A1", "A2L"):
        for swizzle in (True, False):
            for work in (Work.LOAD, Work.LOAD_MMA):
                assert parse_arm(arm_name(variant, swizzle, work)) == (variant, swizzle, work)
    assert parse_arm(MMA_ARM) is None
    assert parse_arm("A1:load.twin") is None
