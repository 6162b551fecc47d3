"""Where elements live in shared memory: ``layout.cuh``, compiled by the host compiler and called through ctypes.

No formula is written here, only the calls; numbers are bytes from the start of a tile. Needs a C++ compiler, no CUDA
and no torch. The trap: a stale library would answer for an older header, so its name carries the hash of the sources.
"""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from micro.gpu.build import CUDA_DIR, build_host_library
from micro.model.variants import BLayout, ReadMode

_NAMES = (
    "bm",
    "bn",
    "bk",
    "warps_m",
    "warps_n",
    "warp_m",
    "warp_n",
    "mma_m",
    "mma_n",
    "mma_k",
    "a_tile_bytes",
    "b_tile_bytes",
    "stage_bytes",
    "chunk_bytes",
    "a_chunks",
    "b_chunks",
)


class Constants:
    """The tile constants of ``layout.cuh`` as attributes: ``bm``, ``bk``, ``warp_m``, ``a_tile_bytes``, ..."""

    bm: int
    bn: int
    bk: int
    warps_m: int
    warps_n: int
    warp_m: int
    warp_n: int
    mma_m: int
    mma_n: int
    mma_k: int
    a_tile_bytes: int
    b_tile_bytes: int
    stage_bytes: int
    chunk_bytes: int
    a_chunks: int
    b_chunks: int

    def __init__(self, values: list[int]) -> None:
        for name, value in zip(_NAMES, values, strict=True):
            setattr(self, name, value)

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return self.warps_m * self.warps_n

    @property
    def k_steps(self) -> int:
        """k-steps of one tile."""
        return self.bk // self.mma_k

    @property
    def m_fragments(self) -> int:
        """A fragments of a warp and k-step."""
        return self.warp_m // self.mma_m

    @property
    def n_fragments(self) -> int:
        """B fragments of a warp and k-step."""
        return self.warp_n // self.mma_n

    @property
    def bytes_per_kstep(self) -> int:
        """Fragment bytes that one warp reads in a k-step: 4 of A at 512 and 4 of B at 256."""
        return 2 * self.mma_k * (self.warp_m + self.warp_n)


class Layout:
    """The address functions; arrays are int32 of shape [32] (one per lane) or [32, 2] (row, column)."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        values = (ctypes.c_int * len(_NAMES))()
        library.layout_constants(values)
        self.constants = Constants(list(values))

    def _lanes(self, function: str, *arguments: int) -> NDArray[np.int32]:
        out = np.empty(32, dtype=np.int32)
        getattr(self._library, function)(*arguments, out.ctypes.data_as(ctypes.c_void_p))
        return out

    def _coords(self, function: str, *arguments: int) -> NDArray[np.int32]:
        out = np.empty((32, 2), dtype=np.int32)
        getattr(self._library, function)(*arguments, out.ctypes.data_as(ctypes.c_void_p))
        return out

    def a_offset(self, swizzle: bool, m: int, k: int) -> int:
        """Byte offset of A[m][k] in its tile."""
        return int(self._library.layout_a_offset(swizzle, m, k))

    def b_offset(self, b_layout: BLayout, swizzle: bool, k: int, n: int) -> int:
        """Byte offset of B[k][n] in its tile."""
        return int(self._library.layout_b_offset(b_layout, swizzle, k, n))

    def swizzle(self, name: str, row: int, col: int) -> int:
        """Column to which swizzle ``a``, ``b`` or ``bt`` moves an element."""
        return int(getattr(self._library, f"layout_swizzle_{name}")(row, col))

    def a_loads(self, mode: ReadMode) -> int:
        """Loads that one A fragment takes."""
        return int(self._library.layout_a_loads(mode))

    def b_loads(self, mode: ReadMode, b_layout: BLayout) -> int:
        """Loads that one B fragment takes."""
        return int(self._library.layout_b_loads(mode, b_layout))

    def a_load_bytes(self, mode: ReadMode) -> int:
        """Bytes that one lane's address stands for (ldmatrix: a row of 16)."""
        return int(self._library.layout_a_load_bytes(mode))

    def b_load_bytes(self, mode: ReadMode, b_layout: BLayout) -> int:
        """Bytes that one lane's address stands for (ldmatrix: a row of 16)."""
        return int(self._library.layout_b_load_bytes(mode, b_layout))

    def a_load_offsets(self, mode: ReadMode, swizzle: bool, m0: int, k0: int, load: int) -> NDArray[np.int32]:
        """What each lane passes to load number ``load`` of the A fragment at (m0, k0): int32 [32], bytes."""
        return self._lanes("layout_a_load_offsets", mode, swizzle, m0, k0, load)

    def b_load_offsets(
        self, mode: ReadMode, b_layout: BLayout, swizzle: bool, k0: int, n0: int, load: int
    ) -> NDArray[np.int32]:
        """What each lane passes to load number ``load`` of the B fragment at (k0, n0): int32 [32], bytes."""
        return self._lanes("layout_b_load_offsets", mode, b_layout, swizzle, k0, n0, load)

    def a_fragment(self, reg: int) -> NDArray[np.int32]:
        """(m, k) of the first element in register ``reg``: int32 [32, 2]; the second is its neighbour in k."""
        return self._coords("layout_a_fragment", reg)

    def b_fragment(self, reg: int) -> NDArray[np.int32]:
        """(k, n) of the first element in register ``reg``: int32 [32, 2]; the second is its neighbour in k."""
        return self._coords("layout_b_fragment", reg)

    def c_fragment(self, reg: int) -> NDArray[np.int32]:
        """(m, n) of accumulator ``reg``: int32 [32, 2]."""
        return self._coords("layout_c_fragment", reg)

    def a_chunk_offset(self, swizzle: bool, chunk: int) -> int:
        """Byte offset at which 16-byte chunk number ``chunk`` of A is stored."""
        return int(self._library.layout_a_chunk_offset(swizzle, chunk))

    def b_chunk_offset(self, b_layout: BLayout, swizzle: bool, chunk: int) -> int:
        """Byte offset at which 16-byte chunk number ``chunk`` of B is stored."""
        return int(self._library.layout_b_chunk_offset(b_layout, swizzle, chunk))

    def a_chunk(self, chunk: int) -> tuple[int, int]:
        """(m, k) of the first element of chunk ``chunk`` of A."""
        out = (ctypes.c_int * 2)()
        self._library.layout_a_chunk(chunk, out)
        return out[0], out[1]

    def b_chunk(self, b_layout: BLayout, chunk: int) -> tuple[int, int]:
        """(row, column) in the global matrix of the first element of chunk ``chunk`` of B."""
        out = (ctypes.c_int * 2)()
        self._library.layout_b_chunk(b_layout, chunk, out)
        return out[0], out[1]


@functools.cache
def layout() -> Layout:
    """The layout of ``layout.cuh`` as it is now; compiled once per version of the header."""
    sources = [Path(CUDA_DIR / "layout_host.cpp"), CUDA_DIR / "layout.cuh"]
    return Layout(ctypes.CDLL(str(build_host_library("layout", sources))))
