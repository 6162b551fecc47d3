"""How many shared-memory instructions and wavefronts must one GEMM launch show, to the last one?

Counted from the kernel of the main table (``gemm.cuh``: cp.async, three stages, plain schedule, simple epilogue) and
the addresses of ``layout.cuh``: every tile is stored once and read once, and nothing else touches shared memory. The
traps: cp.async stores to shared memory too, but is no ``st.shared``; and past the last tile the loop still issues it,
every lane off, because the compiler predicates the copies instead of branching around them.
"""

from __future__ import annotations

import numpy as np

from micro.counters.launch_counts import CHUNK_BYTES, LaunchCounts, scaled, tile_loads, tile_stores
from micro.model.banks import WARP
from micro.model.layout import layout
from micro.model.variants import VARIANTS, BLayout

STAGES = 3  # of the main table's kernels
LINE_BYTES = 128
ELEMENT_BYTES = 2


def copied_lines(rows: int, row_bytes: int, pitch_bytes: int, first_byte: int = 0) -> int:
    """128-byte lines of global memory that the copies of one operand's tile read, summed over warp-wide copies.

    The tile is ``rows`` rows of ``row_bytes``, ``pitch_bytes`` apart, from ``first_byte`` of a line on; a warp's copy
    takes 32 chunks of 16 bytes in row order. An H200 counts one wavefront a line for cp.async that bypasses L1.
    """
    per_row = row_bytes // CHUNK_BYTES
    chunks = np.arange(rows * per_row)
    lines = (first_byte + chunks // per_row * pitch_bytes + chunks % per_row * CHUNK_BYTES) // LINE_BYTES
    return sum(len(np.unique(copy)) for copy in lines.reshape(-1, WARP))


def gemm_launch(variant: str, swizzle: bool, m: int, n: int, k: int) -> LaunchCounts:
    """One launch of a rung on C[m, n] = A[m, k]·B[k, n]; the shape is a multiple of the tile.

    The ring is filled with ``stages - 1`` tiles before the loop, whose every turn issues the copies of one tile more:
    ``stages - 1`` turns have none left to copy.
    """
    sizes = layout().constants
    blocks = m // sizes.bm * (n // sizes.bn)
    tiles = blocks * (k // sizes.bk)
    warp_ksteps = tiles * sizes.k_steps * sizes.warps
    loop = scaled(tile_loads(variant, swizzle), tiles)
    loop["hmma"] = warp_ksteps * sizes.m_fragments * sizes.n_fragments
    copies = tile_stores(variant, swizzle, "ldgsts")
    along_k = [
        copied_lines(sizes.bm, sizes.bk * ELEMENT_BYTES, k * ELEMENT_BYTES, at * ELEMENT_BYTES)
        for at in range(0, k, sizes.bk)
    ]
    natural = VARIANTS[variant].b_layout is BLayout.NATURAL
    of_b = [copied_lines(sizes.bk, sizes.bn * ELEMENT_BYTES, n * ELEMENT_BYTES)] * len(along_k) if natural else along_k
    idle = blocks * (STAGES - 1) * copies["ldgsts"]
    return LaunchCounts(
        warp_ksteps,
        {
            "cp.async": scaled(copies, tiles) | {"ldgsts_wavefronts": blocks * (sum(along_k) + sum(of_b))},
            "cp.async past the last tile": {"ldgsts_off": idle, "ldgsts_issued": idle},
            "main loop": loop,
        },
    )
