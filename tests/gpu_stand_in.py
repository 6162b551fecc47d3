"""A GPU made of NumPy, on which the Python around the kernels runs unchanged where there is none.

torch's tensors are real and lie in host memory (a TorchFunctionMode turns "cuda" into "cpu"); our libraries are Python
objects with the C face of the real ones, which read and write through the pointers they are given; time is a counter
that every launch advances. What it proves is the Python: gates, bookkeeping, figures, messages. Kernels are proved by
the GPU tests. Faults are switched on by name (``Faults``), so that each gate can be seen to bite.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from micro.build import BuiltLibrary

SMS = 4
CYCLES_PER_NS = 2
_USERS = (
    *("micro.build", "micro.cells", "micro.library", "micro.arms", "micro.instruction_cells"),
    *("gemm.library", "gemm.arms", "gemm.explain.stream"),
)


@dataclass
class Faults:
    """What goes wrong: by default nothing."""

    wrong_read: bool = False  # a fragment or an element of C is not what it should be
    wrong_sink: bool = False  # the timed loop alone read other data
    lost_sm: bool = False  # one SM does not answer
    too_fast: bool = False  # every launch takes a cycle
    error: int = 0  # what every launch returns
    resident_blocks: int | None = None
    spill_bytes: int = 0
    departing: str = ""  # a kernel with fewer resident blocks


class _Function:
    """A function as ctypes gives it: callable, with a settable result type."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call, self.restype = call, None

    def __call__(self, *arguments: Any) -> Any:
        return self.call(*arguments)


class _Library:
    """Methods named as the C functions, handed out as functions."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self._functions: dict[str, _Function] = {}

    def __getattr__(self, name: str) -> _Function:
        if name.startswith("c_"):
            raise AttributeError(name)
        if name.endswith("_error_string"):
            return self._functions.setdefault(name, _Function(lambda error: f"error {error}".encode()))
        return self._functions.setdefault(name, _Function(getattr(self, f"c_{name}")))


def memory(pointer: Any, count: int, dtype: Any) -> np.ndarray[Any, Any]:
    """``count`` values behind a pointer, writable."""
    size = count * np.dtype(dtype).itemsize
    return np.frombuffer((ctypes.c_uint8 * size).from_address(pointer.value), dtype=dtype)


class _Probe(_Library):
    def c_probe_prepare(self, shared_bytes: int) -> int:
        return 0

    def c_probe_launch(self, sms: int, shared_bytes: int, stamps: Any, stream: Any) -> int:
        from micro.cells import _STAMP

        rows = memory(stamps, sms, _STAMP)
        rows["sm"] = np.arange(sms)[::-1]
        if self.gpu.faults.lost_sm:
            rows["sm"][0] = 0
        rows["clock"] = self.gpu.ns * CYCLES_PER_NS + 1000 * rows["sm"]  # every SM has a clock of its own
        rows["ns"] = self.gpu.ns
        return self.gpu.faults.error

    def c_probe_hold(self, flag: Any, ticket: int, longest: Any, stream: Any) -> int:
        return 0

    def c_probe_spin(self, sms: int, cycles: Any, stream: Any) -> int:
        self.gpu.advance(cycles.value)
        return 0


class _Micro(_Library):
    """Reads right whatever the layout: the packed tiles are taken apart again and the fragment map applied."""

    _ROWS = tuple((v, s) for v in ("A1", "A2", "A2L", "A3") for s in (True, False))
    _STAGES = 3

    def c_micro_stages(self) -> int:
        return self._STAGES

    def c_micro_variant_count(self) -> int:
        return len(self._ROWS)

    def c_micro_variant(self, index: int) -> SimpleNamespace:
        from micro.variants import VARIANTS

        name, swizzle = self._ROWS[index]
        variant = VARIANTS[name]
        return SimpleNamespace(
            name=name.encode(), read_mode=variant.read_mode, b_layout=variant.b_layout, swizzle=swizzle
        )

    def c_micro_resources(self, index: int, work: int, shared_bytes: int, out: Any) -> int:
        from micro.layout import layout

        fits = 233472 // (shared_bytes + 1024)
        out._obj.registers, out._obj.local_bytes = 100 + index, self.gpu.faults.spill_bytes
        out._obj.resident_blocks = self.gpu.faults.resident_blocks or fits
        assert shared_bytes >= self._STAGES * layout().constants.stage_bytes
        return self.gpu.faults.error

    def _fragments(self, index: int, tiles: Any) -> np.ndarray[Any, Any]:
        from micro.layout import layout
        from micro.library import Tiles, expected_fragments

        sizes = layout().constants
        a_size, b_size = sizes.bm * sizes.bk, sizes.bk * sizes.bn
        raw = memory(tiles, self._STAGES * (a_size + b_size), np.uint16).reshape(self._STAGES, -1)
        transposed = bool(self.c_micro_variant(index).b_layout)
        shape = (self._STAGES, sizes.bn, sizes.bk) if transposed else (self._STAGES, sizes.bk, sizes.bn)
        b = raw[:, a_size:].reshape(shape)
        a = raw[:, :a_size].reshape(self._STAGES, sizes.bm, sizes.bk)
        return expected_fragments(Tiles(a, np.swapaxes(b, 1, 2) if transposed else b))

    def c_micro_gather(self, index: int, tiles: Any, out: Any, stream: Any) -> int:
        fragments = self._fragments(index, tiles)
        if self.gpu.faults.wrong_read:
            fragments[0, 1, 2, 3, 4] ^= 1
        memory(out, fragments.size, np.uint32)[:] = fragments.reshape(-1)
        return self.gpu.faults.error

    def c_micro_launch(
        self, index: int, work: int, blocks: int, shared: int, loops: int, tiles: Any, spans: Any, sinks: Any, _: Any
    ) -> int:
        from micro.arms import expected_sinks
        from micro.layout import layout

        sizes = layout().constants
        warp_ksteps = loops * self._STAGES * sizes.k_steps * sizes.warps * blocks // SMS
        self.gpu.write_spans(spans, blocks, sizes.warps, warp_ksteps * (40, 70, 34)[work])
        right = expected_sinks(self._fragments(index, tiles)) ^ np.uint32(0 if work == 0 else 0x5A5A5A5A)
        rows = memory(sinks, blocks * len(right), np.uint32).reshape(blocks, -1)
        rows[:] = right
        if self.gpu.faults.wrong_sink:
            rows[0, 7] ^= 1
        return self.gpu.faults.error


class _Instructions(_Library):
    def c_instructions_count(self) -> int:
        from micro.patterns import INSTRUCTIONS

        return len(INSTRUCTIONS)

    def c_instructions_info(self, index: int) -> SimpleNamespace:
        found = self._row(index)
        fields = {name: getattr(found, name) for name in ("work", "matrices", "bytes_per_lane", "minimum_arch")}
        return SimpleNamespace(name=found.name.encode(), **fields)

    @staticmethod
    def _row(index: int) -> Any:
        from micro.patterns import INSTRUCTIONS

        return list(INSTRUCTIONS.values())[index]

    def c_instructions_in_flight(self, step: int) -> int:
        return (1, 2, 4, 8, 0)[step]

    def c_instructions_prepare(self, index: int, step: int, warps: int, shared: int, *out: Any) -> int:
        resident = 1 if self.gpu.faults.resident_blocks is None else self.gpu.faults.resident_blocks
        for reference, value in zip(out, (40, self.gpu.faults.spill_bytes, resident), strict=True):
            reference._obj.value = value
        return self.gpu.faults.error

    def c_instructions_launch(
        self, index: int, step: int, blocks: int, warps: int, shared: int, loops: int, *pointers: Any
    ) -> int:
        from micro.instruction_cells import first_mma_product
        from micro.instructions import INSTRUCTIONS_PER_LOOP
        from micro.patterns import IMAGE_BYTES, Work

        image, _, spans, sinks, _ = pointers
        instruction = self._row(index)
        self.gpu.write_spans(spans, blocks, warps, loops * INSTRUCTIONS_PER_LOOP * warps * 9)
        rows = memory(sinks, blocks * warps * 32, np.uint32).reshape(-1, 32)
        rows[:] = 0
        if instruction.work is Work.MMA:
            steps = loops * INSTRUCTIONS_PER_LOOP // self.c_instructions_in_flight(step)
            product = first_mma_product(instruction, memory(image, IMAGE_BYTES, np.uint8))
            rows[:] = (steps * product).astype(np.float32).view(np.uint32)
        if self.gpu.faults.wrong_sink:
            rows[0, 5] ^= 0x40400000
        return self.gpu.faults.error


class _Gemm(_Library):
    def __init__(self, gpu: Gpu) -> None:
        from gemm.variants import every_kernel

        super().__init__(gpu)
        self.kernels = list(every_kernel())
        self._rows: list[Any] = []

    def c_gemm_kernel_count(self) -> int:
        return len(self.kernels)

    def c_gemm_kernel_row(self, index: int) -> Any:
        from gemm.compiled import shared_bytes
        from gemm.library import _Row
        from micro.variants import VARIANTS

        kernel = self.kernels[index]
        variant = VARIANTS[kernel.variant]
        row = _Row(
            variant=kernel.variant.encode(),
            dtype=kernel.dtype.encode(),
            read_mode=variant.read_mode,
            b_layout=variant.b_layout,
            load_mode=kernel.load_mode,
            stages=kernel.stages,
            swizzle=kernel.swizzle,
            epilogue=kernel.epilogue,
            schedule=kernel.schedule,
            wait=kernel.wait,
            min_blocks=kernel.blocks_per_sm,
            shared_bytes=shared_bytes(kernel),
        )
        self._rows.append(row)
        return ctypes.pointer(row)

    def c_gemm_tile(self, *out: Any) -> None:
        for reference, value in zip(out, (128, 128, 32), strict=True):
            reference._obj.value = value

    def c_gemm_resources(self, index: int, out: Any) -> int:
        out._obj.registers, out._obj.local_bytes = 128, self.gpu.faults.spill_bytes
        out._obj.dynamic_shared_bytes = 49152
        departs = self.kernels[index].name == self.gpu.faults.departing
        out._obj.resident_blocks = 1 if departs else 2
        return self.gpu.faults.error

    def c_gemm_launch(self, index: int, a: Any, b: Any, c: Any, *sizes: Any) -> int:
        import torch

        if self.gpu.faults.error:
            return self.gpu.faults.error
        m, n, k = (size.value for size in sizes[:3])
        kernel = self.kernels[index]
        kind = {"bf16": torch.bfloat16, "fp16": torch.float16}[kernel.dtype]

        def matrix(pointer: Any, rows: int, columns: int) -> Any:
            values = memory(pointer, rows * columns, np.int16).reshape(rows, columns)
            return torch.from_numpy(values).view(kind).double()

        left = matrix(a, m, k)
        right = matrix(b, n, k).t() if self.c_gemm_kernel_row(index).contents.b_layout else matrix(b, k, n)
        product = (left @ right).to(torch.float32).to(kind)
        if self.gpu.faults.wrong_read:
            product[1, 2] += 5
        memory(c, m * n, np.int16)[:] = product.view(torch.int16).numpy().reshape(-1)
        self.gpu.advance(m * n * k // 1024)
        return 0


class _Stream(_Library):
    def c_stream_ring_bytes(self) -> int:
        return 49152

    def c_stream_region_bytes(self) -> int:
        return 16384

    def c_stream_latency_steps(self) -> int:
        return 100

    def c_stream_prepare(self, index: int, shared: int, resident: Any) -> int:
        resident._obj.value = self.gpu.faults.resident_blocks or 2
        return self.gpu.faults.error

    def c_stream_launch(self, index: int, blocks: int, shared: int, *rest: Any) -> int:
        out = memory(rest[-2], blocks if index in (3, 4) else 1, np.uint32)
        if index in (3, 4):
            out[:] = {3: 100 * 600, 4: 4096 * 30}[index]
        self.gpu.advance(1_000_000)
        return self.gpu.faults.error

    def c_stream_opt_in(self, size: int, opt_in: int, stream: Any) -> int:
        return 0 if opt_in or size <= 48 * 1024 else 1


_LIBRARIES = {"probe": _Probe, "micro": _Micro, "instructions": _Instructions, "gemm": _Gemm, "stream": _Stream}


@dataclass
class Gpu:
    """The device: its time, its faults, and its libraries in place of built ones."""

    faults: Faults = field(default_factory=Faults)
    ns: int = 1_000_000
    major: int = 9

    def advance(self, cycles: int) -> None:
        """Let the device work for so many cycles."""
        self.ns += max(1, 1 if self.faults.too_fast else cycles // CYCLES_PER_NS)

    def write_spans(self, spans: Any, blocks: int, warps: int, cycles: int) -> None:
        """The span records of one launch: every warp of every block worked from its start to its end."""
        from micro.library import SPAN

        rows = memory(spans, blocks * warps, SPAN)
        start_ns = self.ns
        self.advance(cycles)
        rows["start"], rows["end"] = start_ns * CYCLES_PER_NS, self.ns * CYCLES_PER_NS
        rows["start_ns"], rows["end_ns"] = start_ns, self.ns
        rows["sm"] = np.repeat(np.arange(blocks) % SMS, warps)

    def build(self, name: str, sources: list[Path], *, archs: list[int], flags: Any = (), **_: Any) -> BuiltLibrary:
        """In place of ``build_library``."""
        return BuiltLibrary(Path(f"/stand-in/{name}.so"), "5" * 16, ("a.cu",), ("-O3",), tuple(archs), "13.0", True)

    def load(self, built: BuiltLibrary, tag: str = "") -> Any:
        """In place of ``load_library`` and ``load_copy``."""
        return _LIBRARIES[built.path.stem](self)

    def properties(self, _index: int) -> SimpleNamespace:
        return SimpleNamespace(
            name="Stand-in GPU",
            major=self.major,
            minor=0,
            uuid="00010203-0405-0607-0809-0a0b0c0d0e0f",
            multi_processor_count=SMS,
            shared_memory_per_multiprocessor=233472,
            shared_memory_per_block_optin=232448,
            L2_cache_size=1 << 16,
        )


class _Event:
    def __init__(self, gpu: Gpu) -> None:
        self.gpu, self.ns = gpu, 0

    def record(self) -> None:
        self.ns = self.gpu.ns

    def elapsed_time(self, other: _Event) -> float:
        return (other.ns - self.ns) / 1e6


def _mode(gpu: Gpu) -> Any:
    import torch
    from torch.overrides import TorchFunctionMode

    host, device = torch.device("cpu"), torch.device("cuda", 0)
    of_device = torch.Tensor.device.__get__  # type: ignore[attr-defined]

    def on_host(value: Any) -> Any:
        is_device = value == "cuda" if isinstance(value, str) else isinstance(value, torch.device)
        return host if is_device else value

    class OnHost(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
            if function == of_device:
                return device
            if function is torch.matmul:
                gpu.advance(1000)  # torch's own kernels take time, too
            if function in (torch.Tensor.cuda, torch.Tensor.pin_memory):
                return arguments[0]
            plain = {name: on_host(value) for name, value in (keywords or {}).items()}
            return function(*map(on_host, arguments), **plain)

    return OnHost()


@contextlib.contextmanager
def stand_in_gpu() -> Iterator[Gpu]:
    """Everything that asks for CUDA device 0 gets the stand-in."""
    import torch

    gpu = Gpu()
    stream = SimpleNamespace(cuda_stream=0)
    generator = torch.Generator
    for name in _USERS:
        importlib.import_module(name)
    with contextlib.ExitStack() as stack:

        def put(target: Any, name: str, value: Any) -> None:
            stack.enter_context(mock.patch.object(target, name, value))

        for name in _USERS:
            module = sys.modules[name]
            for function, value in (
                ("build_library", gpu.build),
                ("load_library", gpu.load),
                ("load_copy", gpu.load),
            ):
                if hasattr(module, function):
                    put(module, function, value)
        put(importlib.import_module("micro.device"), "cuda_device_count", lambda: 1)
        put(torch, "Generator", lambda *_, **__: generator("cpu"))
        put(torch.cuda, "set_device", lambda _: None)
        put(torch.cuda, "get_device_properties", gpu.properties)
        put(torch.cuda, "current_stream", lambda *_: stream)
        put(torch.cuda, "synchronize", lambda *_: None)
        put(torch.cuda, "mem_get_info", lambda *_: (1 << 34, 1 << 34))
        put(torch.cuda, "Event", lambda **_: _Event(gpu))
        stack.enter_context(_mode(gpu))
        yield gpu
