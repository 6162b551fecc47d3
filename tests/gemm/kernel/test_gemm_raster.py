"""The order of blocks, compiled by the host compiler from the header that the kernel includes."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from numpy.typing import NDArray

from gemm.kernel.library import CUDA_DIR, INCLUDE_DIRS
from micro.gpu.build import build_host_library

H200_BLOCKS_AT_ONCE = 2 * 132


def blocks(rows: int, cols: int) -> NDArray[np.int32]:
    sources = [CUDA_DIR / "raster_host.cpp", CUDA_DIR / "raster.cuh"]
    library = ctypes.CDLL(str(build_host_library("raster", sources, INCLUDE_DIRS)))
    out = np.full((rows * cols, 2), -1, dtype=np.int32)
    library.raster_blocks(rows, cols, out.ctypes.data_as(ctypes.c_void_p))
    return out


@pytest.mark.parametrize(("rows", "cols"), [(1, 1), (1, 7), (7, 1), (8, 8), (9, 5), (32, 32), (17, 3), (63, 64)])
def test_every_block_is_computed_once(rows: int, cols: int) -> None:
    found = blocks(rows, cols)
    expected = {(row, col) for row in range(rows) for col in range(cols)}
    assert len(found) == len(expected)
    assert {(int(row), int(col)) for row, col in found} == expected


def test_a_wave_reads_fewer_tiles_than_rows_in_order_would() -> None:
    wave = blocks(32, 32)[:H200_BLOCKS_AT_ONCE]
    in_order = np.array([divmod(block, 32) for block in range(H200_BLOCKS_AT_ONCE)])

    def operand_tiles(which: NDArray[np.int32]) -> int:
        return len(set(which[:, 0].tolist())) + len(set(which[:, 1].tolist()))

    assert len(set(wave[:128, 0].tolist())) == 8
    # 128 blocks: 8 rows and 16 columns against 4 rows and 32 columns.
    assert operand_tiles(wave[:128]) == 24 < operand_tiles(in_order[:128]) == 36
