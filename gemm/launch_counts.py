"""How many shared-memory instructions and wavefronts must one GEMM launch show, to the last one?

Counted from the kernel of the main table (``gemm.cuh``: cp.async, three stages, plain schedule, simple epilogue) and
the addresses of ``layout.cuh``: every tile is stored once and read once, and nothing else touches shared memory. The
trap: cp.async stores to shared memory too, but is no ``st.shared``, so which counter includes it has to be seen.
"""

from __future__ import annotations

from micro.launch_counts import LaunchCounts, scaled, tile_loads, tile_stores
from micro.layout import layout

__all__ = ["gemm_launch"]


def gemm_launch(variant: str, swizzle: bool, m: int, n: int, k: int) -> LaunchCounts:
    """One launch of a rung on C[m, n] = A[m, k]·B[k, n]; the shape is a multiple of the tile."""
    sizes = layout().constants
    tiles = m // sizes.bm * (n // sizes.bn) * (k // sizes.bk)
    warp_ksteps = tiles * sizes.k_steps * sizes.warps
    loop = scaled(tile_loads(variant, swizzle), tiles)
    loop["hmma"] = warp_ksteps * sizes.m_fragments * sizes.n_fragments
    return LaunchCounts(
        warp_ksteps, {"cp.async": scaled(tile_stores(variant, swizzle, "ldgsts"), tiles), "main loop": loop}
    )
