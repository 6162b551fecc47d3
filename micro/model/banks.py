"""How many wavefronts does a warp-wide access to shared memory take, and how many of them are bank conflicts?

From byte addresses alone: shared memory is 32 banks of 4-byte words and serves one word per bank in a wavefront. The
lanes that are served together take as many wavefronts as the busiest bank has distinct words; lanes that want the
same word share it. Served together are all 32 lanes up to 4 bytes a lane, a half warp at 8, a quarter warp at 16, and
for ldmatrix one 8x8 tile (8 rows of 16 bytes). The trap: two lanes in one bank are no conflict unless their *words*
differ, so counting lanes per bank finds a two-way conflict in every b16 read.

Not in the model: groups of a wide load that want the same words can merge. An H200 serves a b64 or b128 broadcast in
1 or 2 wavefronts where the model counts 2 or 4. That groups share all words in general is refuted by the random
patterns (b64 over 8 addresses: 8 wavefronts, as modelled, not 4), and one pattern does not tell the rules that are left
apart, so none is built in. Loads of up to 4 bytes a lane and ldmatrix do not merge.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from micro.model.layout import Layout, layout
from micro.model.variants import BLayout, ReadMode, Variant

WARP = 32
BANKS = 32
WORD_BYTES = 4
ROW_BYTES = 16  # what one address of ldmatrix stands for


class Kind(Enum):
    """Who is served together: lanes of a load or store by their width, or the tiles of an ldmatrix."""

    PER_LANE = "per lane"  # ld.shared, st.shared, cp.async
    LDMATRIX = "ldmatrix"


@dataclass(frozen=True)
class Wavefronts:
    """What one warp-wide access costs at the shared-memory port."""

    total: int
    ideal: int  # if its distinct words lay in distinct banks
    ways: int  # distinct words in the busiest bank of the busiest phase: 1 is free of conflicts
    banks: int  # distinct banks touched in the widest phase
    phases: int  # groups of lanes served one after the other

    @property
    def excess(self) -> int:
        """Wavefronts that bank conflicts add."""
        return self.total - self.ideal


def lanes_served_together(bytes_per_lane: int, kind: Kind) -> int:
    """Lanes of one phase. Raises ValueError for a width that the hardware has no access for."""
    if kind is Kind.LDMATRIX:
        if bytes_per_lane != ROW_BYTES:
            raise ValueError(f"ldmatrix: an address stands for {ROW_BYTES} bytes, not {bytes_per_lane}")
        return 8
    if bytes_per_lane not in (1, 2, 4, 8, 16):
        raise ValueError(f"bytes_per_lane {bytes_per_lane}: an access is 1, 2, 4, 8 or 16 bytes wide")
    return WARP if bytes_per_lane <= WORD_BYTES else WARP * WORD_BYTES // bytes_per_lane


def words_per_phase(addresses: NDArray[np.integer], bytes_per_lane: int, kind: Kind) -> NDArray[np.int64]:
    """The 4-byte words that each lane touches: int64 [phases, lanes, words], a word being address // 4.

    ``addresses`` are bytes [lanes]: 32 of a warp, or the first 8, 16 of an ldmatrix.x1, .x2. Raises ValueError when
    they are not whole phases, negative, or not aligned to their width (the hardware would fault).
    """
    bytes_ = np.asarray(addresses, dtype=np.int64)
    together = lanes_served_together(bytes_per_lane, kind)
    if bytes_.ndim != 1 or bytes_.size == 0 or bytes_.size % together or bytes_.size > WARP:
        raise ValueError(f"addresses of shape {bytes_.shape}: expected up to {WARP} lanes in groups of {together}")
    if (bytes_ < 0).any() or (bytes_ % bytes_per_lane).any():
        raise ValueError(f"addresses must be 0 or more and aligned to {bytes_per_lane} bytes")
    width = max(1, bytes_per_lane // WORD_BYTES)
    words = bytes_[:, None] // WORD_BYTES + np.arange(width)
    return words.reshape(-1, together, width)


def wavefronts(addresses: NDArray[np.integer], bytes_per_lane: int, kind: Kind = Kind.PER_LANE) -> Wavefronts:
    """Wavefronts of one warp-wide access from its byte addresses [lanes] and width in bytes.

    The rule is that of the module's head; measurement has to confirm it. Raises ValueError as
    ``words_per_phase`` does.
    """
    words = words_per_phase(addresses, bytes_per_lane, kind)
    distinct = [np.unique(phase) for phase in words]
    per_bank = np.array([np.bincount(phase % BANKS, minlength=BANKS) for phase in distinct])
    busiest = per_bank.max(axis=1)
    return Wavefronts(
        total=int(busiest.sum()),
        ideal=sum(-(-phase.size // BANKS) for phase in distinct),
        ways=int(busiest.max()),
        banks=int((per_bank > 0).sum(axis=1).max()),
        phases=len(distinct),
    )


@dataclass(frozen=True)
class Load:
    """One load instruction of a warp's k-step and what it costs."""

    operand: str  # "A" or "B"
    fragment: int
    load: int
    instruction: str
    kind: Kind
    bytes_per_lane: int
    addresses: NDArray[np.int32]  # bytes from the start of the operand's tile, the lanes that count
    wavefronts: Wavefronts


@dataclass(frozen=True)
class KstepWavefronts:
    """One warp's k-step: every load, and the sums over them in wavefronts."""

    variant: str
    swizzle: bool
    loads: tuple[Load, ...]

    @property
    def instructions(self) -> int:
        """Load instructions."""
        return len(self.loads)

    @property
    def total(self) -> int:
        """Wavefronts of all loads: cycles of the SM's shared-memory port."""
        return sum(load.wavefronts.total for load in self.loads)

    @property
    def ideal(self) -> int:
        """Wavefronts if no load had a bank conflict."""
        return sum(load.wavefronts.ideal for load in self.loads)

    @property
    def excess(self) -> int:
        """Wavefronts that bank conflicts add."""
        return self.total - self.ideal

    @property
    def a(self) -> int:
        """Wavefronts of the A fragments."""
        return sum(load.wavefronts.total for load in self.loads if load.operand == "A")

    @property
    def b(self) -> int:
        """Wavefronts of the B fragments."""
        return sum(load.wavefronts.total for load in self.loads if load.operand == "B")


def _instruction(operand: str, variant: Variant, bytes_per_lane: int) -> str:
    if variant.read_mode is ReadMode.LD_SHARED:
        return f"ld.shared.b{8 * bytes_per_lane}"
    if operand == "A":
        return "ldmatrix.x4"
    return "ldmatrix.x2.trans" if variant.b_layout is BLayout.NATURAL else "ldmatrix.x2"


def _loads(where: Layout, variant: Variant, swizzle: bool, warp: int, kstep: int) -> Iterator[Load]:
    sizes = where.constants
    mode, b_layout = variant.read_mode, variant.b_layout
    kind = Kind.LDMATRIX if mode is ReadMode.LDMATRIX else Kind.PER_LANE
    m0, n0 = warp // sizes.warps_n * sizes.warp_m, warp % sizes.warps_n * sizes.warp_n
    k0 = kstep * sizes.mma_k

    def one(operand: str, fragment: int, load: int, width: int, addresses: NDArray[np.int32]) -> Load:
        instruction = _instruction(operand, variant, width)
        if instruction.startswith("ldmatrix.x2"):
            addresses = addresses[:16]  # .x2 ignores the addresses of lanes 16..31
        cost = wavefronts(addresses, width, kind)
        return Load(operand, fragment, load, instruction, kind, width, addresses, cost)

    width = where.a_load_bytes(mode)
    for fragment in range(sizes.m_fragments):
        for load in range(where.a_loads(mode)):
            at = where.a_load_offsets(mode, swizzle, m0 + fragment * sizes.mma_m, k0, load)
            yield one("A", fragment, load, width, at)
    width = where.b_load_bytes(mode, b_layout)
    for fragment in range(sizes.n_fragments):
        for load in range(where.b_loads(mode, b_layout)):
            at = where.b_load_offsets(mode, b_layout, swizzle, k0, n0 + fragment * sizes.mma_n, load)
            yield one("B", fragment, load, width, at)


def kstep_wavefronts(variant: Variant, swizzle: bool, *, warp: int = 0, kstep: int = 0) -> KstepWavefronts:
    """Every load of one warp's k-step (16 of k) with its wavefronts, from the addresses in ``layout.cuh``.

    Tiles start at a multiple of 128 bytes, so offsets inside the tile give the banks. No warp or k-step differs from
    another; a test holds that.
    """
    return KstepWavefronts(variant.name, swizzle, tuple(_loads(layout(), variant, swizzle, warp, kstep)))


@dataclass(frozen=True)
class Store:
    """One warp-wide 16-byte store of a tile (cp.async or st.shared.v4)."""

    operand: str
    addresses: NDArray[np.int32]
    wavefronts: Wavefronts


@dataclass(frozen=True)
class TileStore:
    """Global to shared: every warp-wide store of one 128x128x32 tile step of a block."""

    variant: str
    swizzle: bool
    stores: tuple[Store, ...]

    @property
    def total(self) -> int:
        """Wavefronts of all stores of the block's tile step."""
        return sum(store.wavefronts.total for store in self.stores)

    @property
    def ideal(self) -> int:
        """Wavefronts if no store had a bank conflict."""
        return sum(store.wavefronts.ideal for store in self.stores)


def tile_store(variant: Variant, swizzle: bool) -> TileStore:
    """The store side of one tile step: lane i of a warp writes chunk first + i, 16 bytes, a quarter warp at a time."""
    where = layout()
    sizes = where.constants
    stores = []
    for operand, chunks in (("A", sizes.a_chunks), ("B", sizes.b_chunks)):
        for first in range(0, chunks, WARP):
            at = np.array(
                [
                    where.a_chunk_offset(swizzle, chunk)
                    if operand == "A"
                    else where.b_chunk_offset(variant.b_layout, swizzle, chunk)
                    for chunk in range(first, first + WARP)
                ],
                dtype=np.int32,
            )
            stores.append(Store(operand, at, wavefronts(at, sizes.chunk_bytes)))
    return TileStore(variant.name, swizzle, tuple(stores))
