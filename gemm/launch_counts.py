"""How many shared-memory instructions and wavefronts must one GEMM launch show, to the last one?

Counted from the kernel of the main table (``gemm.cuh``: cp.async, three stages, plain schedule, simple epilogue) and
the addresses of ``layout.cuh``: every tile is stored once and read once, and nothing else touches shared memory. The
traps: cp.async stores to shared memory too, but is no ``st.shared``; and past the last tile the loop still issues it,
every lane off, because the compiler predicates the copies instead of branching around them.
"""

from __future__ import annotations

from micro.launch_counts import LaunchCounts, scaled, tile_loads, tile_stores
from micro.layout import layout

__all__ = ["gemm_launch"]

STAGES = 3  # of the main table's kernels


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
    idle = blocks * (STAGES - 1) * copies["ldgsts"]
    return LaunchCounts(
        warp_ksteps,
        {
            "cp.async": scaled(copies, tiles),
            "cp.async past the last tile": {"ldgsts_off": idle, "ldgsts_issued": idle},
            "main loop": loop,
        },
    )
