"""The GEMM kernels through ctypes: build the groups that hold them, read their table, launch one.

Only the groups that the asked-for kernels lie in are compiled. Launches take torch tensors, checked here, and go onto
the current stream. The trap: a launch without the shared-memory opt-in fails, so resources are read, which sets it,
first.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemm.kernel.arguments import check_tensors
from gemm.kernel.variants import Epilogue, Kernel, LoadMode, Schedule, Wait, every_kernel
from micro.bench.read_path.library import KernelResources
from micro.gpu import build
from micro.gpu.build import CUDA_DIR as MICRO_CUDA_DIR
from micro.gpu.build import BuiltLibrary, build_library, kernel_hash, kernel_sources, load_library
from micro.gpu.cuda_errors import cuda_failure
from micro.model.variants import BLayout, ReadMode
from stats.base.errors import UserError
from stats.record.provenance import relative_sources

if TYPE_CHECKING:
    import torch


CUDA_DIR = Path(__file__).resolve().parents[1] / "cuda"
INCLUDE_DIRS = (CUDA_DIR, MICRO_CUDA_DIR)


@dataclass(frozen=True)
class TableRow:
    """One row of the C table."""

    kernel: Kernel
    read_mode: ReadMode
    b_layout: BLayout
    shared_bytes: int


@dataclass(frozen=True)
class Resources:
    """What the compiler used, and how many blocks of 256 threads an SM holds."""

    registers: int
    spill_bytes: int
    shared_bytes: int
    resident_blocks: int


class _Row(ctypes.Structure):
    _fields_ = (
        ("variant", ctypes.c_char_p),
        ("dtype", ctypes.c_char_p),
        *(
            (name, ctypes.c_int)
            for name in ("read_mode", "b_layout", "load_mode", "stages", "swizzle", "epilogue", "schedule", "wait")
        ),
        ("min_blocks", ctypes.c_int),
        ("shared_bytes", ctypes.c_int),
        ("kernel", ctypes.c_void_p),
    )


def sources(kernels: Iterable[Kernel]) -> list[Path]:
    """The translation units that hold these kernels, and the C face. Raises UserError for one that is not built."""
    groups = dict.fromkeys(kernel.group for kernel in kernels)
    return [CUDA_DIR / "gemm.cu", *(CUDA_DIR / f"group_{group}.cu" for group in sorted(groups))]


def _every_source() -> list[Path]:
    return sources(every_kernel())


def source_hash(flags: Sequence[str] = ()) -> str:
    """Hash of the kernel sources and flags as they are now, whichever groups are built; the one that records carry."""
    return kernel_hash(_every_source(), flags, INCLUDE_DIRS)


def hashed_sources() -> list[str]:
    """The files behind ``source_hash``, as records name them."""
    return relative_sources(kernel_sources(_every_source(), INCLUDE_DIRS))


def header_facts(built: BuiltLibrary) -> dict[str, Any]:
    """``micro.gpu.build.header_facts`` with the hash and the files of all groups, whichever ``built`` holds."""
    return build.header_facts(built) | {"source_hash": source_hash(), "sources": hashed_sources()}


def build_gemm(kernels: Iterable[Kernel], archs: Sequence[int], flags: Sequence[str] = ()) -> BuiltLibrary:
    """Build the groups that hold ``kernels`` for ``archs`` (80, 90, ...). Raises what ``build_library`` raises."""
    return build_library("gemm", sources(kernels), archs=archs, flags=flags, include_dirs=INCLUDE_DIRS)


def torch_dtype(name: str) -> torch.dtype:
    """``bf16`` or ``fp16`` as torch calls it."""
    import torch

    return {"bf16": torch.bfloat16, "fp16": torch.float16}[name]


class GemmLibrary:
    """A built library, opened; the table is readable without a device."""

    def __init__(self, library: BuiltLibrary | ctypes.CDLL) -> None:
        self._library = load_library(library) if isinstance(library, BuiltLibrary) else library
        self._archs = library.archs if isinstance(library, BuiltLibrary) else ()
        self._library.gemm_kernel_row.restype = ctypes.POINTER(_Row)
        self._library.gemm_error_string.restype = ctypes.c_char_p
        self.table = [self._row(index) for index in range(self._library.gemm_kernel_count())]
        self._index = {row.kernel: index for index, row in enumerate(self.table)}

    def _row(self, index: int) -> TableRow:
        row = self._library.gemm_kernel_row(index).contents
        kernel = Kernel(
            variant=row.variant.decode(),
            dtype=row.dtype.decode(),
            load_mode=LoadMode(row.load_mode),
            stages=row.stages,
            swizzle=bool(row.swizzle),
            epilogue=Epilogue(row.epilogue),
            schedule=Schedule(row.schedule),
            wait=Wait(row.wait),
            blocks_per_sm=row.min_blocks,
        )
        return TableRow(kernel, ReadMode(row.read_mode), BLayout(row.b_layout), row.shared_bytes)

    def tile(self) -> dict[str, int]:
        """The block tile of ``layout.cuh``: m, n, k."""
        m, n, k = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        self._library.gemm_tile(ctypes.byref(m), ctypes.byref(n), ctypes.byref(k))
        return {"m": m.value, "n": n.value, "k": k.value}

    def index(self, kernel: Kernel) -> int:
        """Row number of a kernel. Raises UserError when this library was built without it."""
        if kernel not in self._index:
            raise UserError(f"{kernel.name}: this library holds {', '.join(row.kernel.name for row in self.table)}")
        return self._index[kernel]

    def _check(self, error: int, doing: str) -> None:
        if error:
            raise cuda_failure(error, self._library.gemm_error_string(error).decode(), doing, self._archs)

    def resources(self, kernel: Kernel) -> Resources:
        """Registers, spills, shared memory, residency on the current device; also sets the shared-memory opt-in."""
        index, out = self.index(kernel), KernelResources()
        self._check(self._library.gemm_resources(index, ctypes.byref(out)), f"{kernel.name}: resources")
        return Resources(
            registers=out.registers,
            spill_bytes=out.local_bytes,
            shared_bytes=out.static_shared_bytes + self.table[index].shared_bytes,
            resident_blocks=out.resident_blocks,
        )

    def launcher(self, kernel: Kernel, a: Any, b: Any, c: Any) -> Callable[[], None]:
        """A function that enqueues c = a·b on the stream that is current now; arguments are checked here, once.

        ``b`` is [n, k] for kernels of transposed layout. Raises UserError for a bad argument; the function raises
        BenchError naming the kernel when CUDA refuses the launch.
        """
        import torch

        m, n, k = check_tensors(a, b, c, kernel.b_layout, torch_dtype(kernel.dtype))
        self.resources(kernel)
        pointers = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (a, b, c)]
        stream = ctypes.c_void_p(torch.cuda.current_stream(a.device).cuda_stream)
        launch = functools.partial(
            self._library.gemm_launch, self.index(kernel), *pointers, *map(ctypes.c_int, (m, n, k)), stream
        )
        name = f"{kernel.name}: launch"

        # The pointers alone would let torch give the memory to somebody else while launches still use it.
        def run(_alive: tuple[Any, ...] = (a, b, c)) -> None:
            error = launch()
            if error:
                self._check(error, name)

        return run
