"""The micro kernels through ctypes: launch one, read back its spans, gather its fragments.

Nothing is decided here; shapes and sizes are those of ``micro.cu``. Tiles are made on the host as bf16 bits: fresh
random finite values, never zeros, since power and so clocks depend on the data.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from micro.gpu.build import CUDA_DIR, BuiltLibrary, load_library
from micro.gpu.cuda_errors import cuda_failure
from micro.model.arm_names import Work
from micro.model.layout import Constants, layout
from micro.model.variants import BLayout, ReadMode
from stats.base.errors import BenchError

SOURCE = CUDA_DIR / "micro.cu"


@dataclass(frozen=True)
class TableRow:
    """One row of the C table."""

    name: str
    read_mode: ReadMode
    b_layout: BLayout
    swizzle: bool


@dataclass(frozen=True)
class Tiles:
    """A ring of stages: ``a`` uint16 [stages, BM, BK] and ``b`` uint16 [stages, BK, BN], bf16 bits."""

    a: NDArray[np.uint16]
    b: NDArray[np.uint16]

    def packed(self, b_layout: BLayout) -> NDArray[np.uint16]:
        """As ``micro.cu`` reads them: per stage A, then B in its layout; uint16 [stages, elements]."""
        b = self.b if b_layout is BLayout.NATURAL else np.swapaxes(self.b, 1, 2)
        stages = len(self.a)
        packed: NDArray[np.uint16] = np.concatenate([self.a.reshape(stages, -1), b.reshape(stages, -1)], axis=1)
        return packed


def random_tiles(stages: int, sizes: Constants, rng: np.random.Generator) -> Tiles:
    """Fresh normal values as bf16 bits (the upper half of a float32)."""

    def bits(*shape: int) -> NDArray[np.uint16]:
        values = rng.standard_normal(shape, dtype=np.float32).view(np.uint32)
        return np.right_shift(values, 16).astype(np.uint16)

    return Tiles(bits(stages, sizes.bm, sizes.bk), bits(stages, sizes.bk, sizes.bn))


def expected_fragments(tiles: Tiles) -> NDArray[np.uint32]:
    """The mma fragment map applied to the tiles: uint32 [stages, k_steps, warps, 32, 24], registers A then B."""
    where = layout()
    sizes = where.constants
    stages = len(tiles.a)
    out = np.empty((stages, sizes.k_steps, sizes.warps, 32, 4 * sizes.m_fragments + 2 * sizes.n_fragments), np.uint32)
    for kstep in range(sizes.k_steps):
        for warp in range(sizes.warps):
            m0 = warp // sizes.warps_n * sizes.warp_m
            n0 = warp % sizes.warps_n * sizes.warp_n
            for m in range(sizes.m_fragments):
                for reg in range(4):
                    row, col = np.add(where.a_fragment(reg), (m0 + m * sizes.mma_m, kstep * sizes.mma_k)).T
                    low = tiles.a[:, row, col].astype(np.uint32)
                    high = tiles.a[:, row, col + 1].astype(np.uint32)
                    out[:, kstep, warp, :, 4 * m + reg] = low | high << 16
            for n in range(sizes.n_fragments):
                for reg in range(2):
                    k, col = np.add(where.b_fragment(reg), (kstep * sizes.mma_k, n0 + n * sizes.mma_n)).T
                    low = tiles.b[:, k, col].astype(np.uint32)
                    high = tiles.b[:, k + 1, col].astype(np.uint32)
                    out[:, kstep, warp, :, 4 * sizes.m_fragments + 2 * n + reg] = low | high << 16
    return out


class _Variant(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("read_mode", ctypes.c_int),
        ("b_layout", ctypes.c_int),
        ("swizzle", ctypes.c_int),
    )


class KernelResources(ctypes.Structure):
    """KernelResources of ``resources.cuh``: what a kernel uses and how many of its blocks an SM holds."""

    _fields_ = (
        ("registers", ctypes.c_int),
        ("local_bytes", ctypes.c_int),
        ("static_shared_bytes", ctypes.c_int),
        ("resident_blocks", ctypes.c_int),
    )


def require_one_block(found: KernelResources, arm: str) -> None:
    """Raise BenchError unless exactly one block fits an SM and nothing spills."""
    if found.resident_blocks != 1 or found.local_bytes:
        raise BenchError(
            f"{arm}: {found.resident_blocks} blocks fit an SM and {found.local_bytes} bytes spill "
            f"({found.registers} registers); one block and no spill are required"
        )


class MicroLibrary:
    """``micro.cu`` opened through ctypes; the table is readable without a device."""

    def __init__(self, library: BuiltLibrary | ctypes.CDLL) -> None:
        self._library = load_library(library) if isinstance(library, BuiltLibrary) else library
        self._archs = library.archs if isinstance(library, BuiltLibrary) else ()
        self._library.micro_variant.restype = _Variant
        self._library.micro_error_string.restype = ctypes.c_char_p
        self.stages = int(self._library.micro_stages())
        self.sizes = layout().constants

    def table(self) -> list[TableRow]:
        """The C table of variants."""
        rows = [self._library.micro_variant(index) for index in range(self._library.micro_variant_count())]
        return [
            TableRow(row.name.decode(), ReadMode(row.read_mode), BLayout(row.b_layout), bool(row.swizzle))
            for row in rows
        ]

    def index(self, name: str, swizzle: bool) -> int:
        """Row number of a variant in the C table."""
        return next(i for i, row in enumerate(self.table()) if (row.name, row.swizzle) == (name, swizzle))

    def check(self, error: int, doing: str) -> None:
        """Raise when a call failed: BenchError with CUDA's words, UserError for a library without code for this GPU."""
        if error:
            raise cuda_failure(error, self._library.micro_error_string(error).decode(), doing, self._archs)

    @property
    def ring_bytes(self) -> int:
        """Shared memory of the ring of tiles."""
        return self.stages * self.sizes.stage_bytes

    def resources(self, index: int, work: Work, shared_bytes: int) -> KernelResources:
        """Registers, spills, residency; also sets the shared-memory opt-in of the kernel."""
        out = KernelResources()
        self.check(self._library.micro_resources(index, work, shared_bytes, ctypes.byref(out)), "asking for resources")
        return out

    def launch(
        self, index: int, work: Work, *, blocks: int, shared_bytes: int, loops: int, tiles: Any, spans: Any, sinks: Any
    ) -> None:
        """Enqueue one launch on the current stream; ``tiles``, ``spans``, ``sinks`` are device tensors."""
        import torch

        error = self._library.micro_launch(
            index,
            work,
            blocks,
            shared_bytes,
            loops,
            ctypes.c_void_p(tiles.data_ptr()),
            ctypes.c_void_p(spans.data_ptr()),
            ctypes.c_void_p(sinks.data_ptr()),
            ctypes.c_void_p(torch.cuda.current_stream().cuda_stream),
        )
        self.check(error, "launching")

    def gather(self, index: int, tiles: Any) -> NDArray[np.uint32]:
        """Every fragment register once: uint32 [stages, k_steps, warps, 32, 24] as read by the variant."""
        import torch

        sizes = self.sizes
        shape = (self.stages, sizes.k_steps, sizes.warps, 32, 4 * sizes.m_fragments + 2 * sizes.n_fragments)
        out = torch.full(shape, -1, dtype=torch.int32, device="cuda")
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        error = self._library.micro_gather(
            index, ctypes.c_void_p(tiles.data_ptr()), ctypes.c_void_p(out.data_ptr()), stream
        )
        self.check(error, "gathering fragments")
        torch.cuda.synchronize()
        found: NDArray[np.uint32] = out.cpu().numpy().view(np.uint32)
        return found
