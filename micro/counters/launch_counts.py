"""How many shared-memory instructions and wavefronts must one launch show, to the last one?

Counted from the kernel's source and the addresses of ``layout.cuh``: the main loop, and everything before and after it
that touches shared memory (the ring's fill, the fragments of the mma-only kernel, cp.async). Every warp and k-step is
summed, none assumed equal to another. The trap: a figure per k-step hides what runs once, and a counter does not.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from micro.model.arm_names import Work
from micro.model.banks import WARP, Kind, kstep_wavefronts, tile_store
from micro.model.layout import layout
from micro.model.variants import VARIANTS

# Instructions, wavefronts and conflicts by kind of instruction; `load` and `store` are the sums that the pipe counts.
KEYS = (
    "lds",
    "ldsm",
    "sts",
    "ldgsts",
    "ldgsts_off",
    "ldgsts_issued",
    "hmma",
    "lds_wavefronts",
    "ldsm_wavefronts",
    "load_wavefronts",
    "sts_wavefronts",
    "ldgsts_wavefronts",
    "store_wavefronts",
    "ldgsts_sectors",
    "lds_conflicts",
    "ldsm_conflicts",
    "load_conflicts",
    "store_conflicts",
    "ldgsts_conflicts",
)

CHUNK_BYTES = 16  # what a lane copies at a time
SECTOR_BYTES = 32


@dataclass(frozen=True)
class LaunchCounts:
    """One launch: ``parts`` by where in the kernel they run, each a count per key over the whole grid."""

    warp_ksteps: int  # warps of the grid times k-steps of each
    parts: Mapping[str, Mapping[str, int]]

    def total(self, key: str) -> int:
        """The whole launch."""
        return sum(part.get(key, 0) for part in self.parts.values())

    def as_dict(self) -> dict[str, dict[str, int]]:
        """Plain data for a record; zeros left out."""
        return {where: {key: n for key, n in part.items() if n} for where, part in self.parts.items()}


def scaled(counts: Mapping[str, int], factor: int) -> dict[str, int]:
    """Every count times ``factor``."""
    return {key: factor * n for key, n in counts.items()}


@functools.cache
def tile_loads(variant: str, swizzle: bool, k_steps: int | None = None) -> Mapping[str, int]:
    """Fragment loads of one block over its first ``k_steps`` k-steps of a tile (default: all), all warps."""
    sizes = layout().constants
    counts: Counter[str] = Counter()
    for warp in range(sizes.warps):
        for kstep in range(sizes.k_steps if k_steps is None else k_steps):
            for load in kstep_wavefronts(VARIANTS[variant], swizzle, warp=warp, kstep=kstep).loads:
                kind = "ldsm" if load.kind is Kind.LDMATRIX else "lds"
                counts[kind] += 1
                counts[f"{kind}_wavefronts"] += load.wavefronts.total
                counts["load_wavefronts"] += load.wavefronts.total
                counts[f"{kind}_conflicts"] += load.wavefronts.excess
                counts["load_conflicts"] += load.wavefronts.excess
    return counts


@functools.cache
def tile_stores(variant: str, swizzle: bool, instruction: Literal["sts", "ldgsts"]) -> Mapping[str, int]:
    """One tile step of a block written to shared memory by st.shared or cp.async, all warps."""
    stores = tile_store(VARIANTS[variant], swizzle)
    counts: Counter[str] = Counter()
    counts[instruction] = len(stores.stores)
    counts[f"{instruction}_wavefronts"] = stores.total
    excess = stores.total - stores.ideal
    if instruction == "sts":
        counts["store_wavefronts"] = stores.total
        counts["store_conflicts"] = excess
    else:
        counts["ldgsts_issued"] = len(stores.stores)
        # A row of a tile is whole sectors.
        counts["ldgsts_sectors"] = len(stores.stores) * WARP * CHUNK_BYTES // SECTOR_BYTES
        counts["ldgsts_conflicts"] = excess
    return counts


def micro_launch(variant: str, swizzle: bool, work: Work, *, blocks: int, loops: int, stages: int) -> LaunchCounts:
    """One launch of ``micro_kernel``: ``loops`` passes over a ring of ``stages`` tiles by ``blocks`` blocks."""
    sizes = layout().constants
    tiles = blocks * loops * stages
    warp_ksteps = tiles * sizes.k_steps * sizes.warps
    loop: dict[str, int] = {}
    parts = {"ring fill": scaled(tile_stores(variant, swizzle, "sts"), blocks * stages)}
    if work is Work.MMA:
        parts["fragments, once"] = scaled(tile_loads(variant, swizzle, 1), blocks)
    else:
        loop = scaled(tile_loads(variant, swizzle), tiles)
    if work is not Work.LOAD:
        loop["hmma"] = warp_ksteps * sizes.m_fragments * sizes.n_fragments
    parts["main loop"] = loop
    return LaunchCounts(warp_ksteps, parts)
