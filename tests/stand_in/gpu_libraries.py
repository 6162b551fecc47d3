"""The libraries of the GPU made of NumPy: Python objects with the C face of the built ones.

They read and write through the pointers that they are given, as the kernels would, and let the device's time go on.
What they read is right unless a fault is switched on.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

SMS = 4
CYCLES_PER_NS = 2


class _Function:
    """A function as ctypes gives it: callable, with a settable result type."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call, self.restype = call, None

    def __call__(self, *arguments: Any) -> Any:
        return self.call(*arguments)


class _Library:
    """Methods named as the C functions, handed out as functions."""

    def __init__(self, gpu: Any) -> None:
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
        from micro.gpu.cells import _STAMP

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

    _STAGES = 3

    @property
    def _rows(self) -> list[tuple[str, bool]]:
        from micro.model.variants import VARIANTS

        return [(variant, swizzle) for variant in VARIANTS for swizzle in (True, False)]

    def c_micro_stages(self) -> int:
        return self._STAGES

    def c_micro_variant_count(self) -> int:
        return len(self._rows)

    def c_micro_variant(self, index: int) -> SimpleNamespace:
        from micro.model.variants import VARIANTS

        name, swizzle = self._rows[index]
        variant = VARIANTS[name]
        return SimpleNamespace(
            name=name.encode(), read_mode=variant.read_mode, b_layout=variant.b_layout, swizzle=swizzle
        )

    def c_micro_resources(self, index: int, work: int, shared_bytes: int, out: Any) -> int:
        from micro.model.layout import layout

        fits = 233472 // (shared_bytes + 1024)
        out._obj.registers, out._obj.local_bytes = 100 + index, self.gpu.faults.spill_bytes
        out._obj.resident_blocks = self.gpu.faults.resident_blocks or fits
        assert shared_bytes >= self._STAGES * layout().constants.stage_bytes
        return self.gpu.faults.error

    def _fragments(self, index: int, tiles: Any) -> np.ndarray[Any, Any]:
        from micro.bench.read_path.library import Tiles, expected_fragments
        from micro.model.layout import layout

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
        from micro.bench.read_path.arms import expected_sinks
        from micro.model.layout import layout

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
        from micro.model.patterns import INSTRUCTIONS

        return len(INSTRUCTIONS)

    def c_instructions_info(self, index: int) -> SimpleNamespace:
        found = self._row(index)
        fields = {name: getattr(found, name) for name in ("work", "matrices", "bytes_per_lane", "minimum_arch")}
        return SimpleNamespace(name=found.name.encode(), **fields)

    @staticmethod
    def _row(index: int) -> Any:
        from micro.model.patterns import INSTRUCTIONS

        return list(INSTRUCTIONS.values())[index]

    def c_instructions_image_address(self) -> int:
        return 1024

    def c_instructions_in_flight(self, step: int) -> int:
        return (1, 2, 4, 8, 0)[step]

    def c_instructions_resources(self, index: int, step: int, warps: int, shared: int, out: Any) -> int:
        resident = 1 if self.gpu.faults.resident_blocks is None else self.gpu.faults.resident_blocks
        out._obj.registers, out._obj.local_bytes = 40, self.gpu.faults.spill_bytes
        out._obj.resident_blocks = resident
        return self.gpu.faults.error

    def c_instructions_launch(
        self, index: int, step: int, blocks: int, warps: int, shared: int, loops: int, *pointers: Any
    ) -> int:
        from micro.bench.instructions.cells import first_mma_product
        from micro.bench.instructions.design import INSTRUCTIONS_PER_LOOP
        from micro.model.patterns import IMAGE_BYTES, Work

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
    def __init__(self, gpu: Any) -> None:
        from gemm.kernel.variants import every_kernel

        super().__init__(gpu)
        self.kernels = list(every_kernel())
        self._rows: list[Any] = []

    def c_gemm_kernel_count(self) -> int:
        return len(self.kernels)

    def c_gemm_kernel_row(self, index: int) -> Any:
        from gemm.kernel.compiled import shared_bytes
        from gemm.kernel.library import _Row
        from micro.model.variants import VARIANTS

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
    """In the order of stream.cu: two kernels of tiles, reads of each variant, distinct lines, latency, barrier."""

    @property
    def _latency(self) -> int:
        from micro.model.variants import VARIANTS

        return 2 + len(VARIANTS) + 1

    def c_stream_kernel_count(self) -> int:
        return self._latency + 2 - self.gpu.faults.lost_stream_kernels

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
        own_cycles = {self._latency: 100 * 600, self._latency + 1: 4096 * 30}
        out = memory(rest[-2], blocks if index in own_cycles else 1, np.uint32)
        if index in own_cycles:
            out[:] = own_cycles[index]
        self.gpu.advance(1_000_000)
        return self.gpu.faults.error

    def c_stream_opt_in(self, size: int, opt_in: int, stream: Any) -> int:
        return 0 if opt_in or size <= 48 * 1024 else 1


class _Contention(_Library):
    """A pass takes 49 cycles, whatever is in it: above the port's and the tensor cores' floor of every arm."""

    _IMAGE_BYTES, _REGION_BYTES = 16384, 131072

    @staticmethod
    def _row(index: int) -> Any:
        from micro.bench.contention.design import ARMS

        return ARMS[index]

    def c_contention_count(self) -> int:
        from micro.bench.contention.design import ARMS

        return len(ARMS)

    def c_contention_arm(self, index: int) -> SimpleNamespace:
        from micro.bench.contention.design import KINDS

        arm = self._row(index)
        return SimpleNamespace(
            name=arm.name.encode(),
            kind=KINDS.index(arm.kind),
            instructions=arm.instructions,
            mmas=arm.mmas,
            copies=-1 if arm.copies is None else arm.copies,
            shared_bytes=self._IMAGE_BYTES + 32768 * (arm.copies or 0) + self.gpu.faults.ring_bytes * bool(arm.copies),
        )

    def c_contention_sizes(self, *out: Any) -> None:
        for reference, value in zip(out, (16, 4, self._IMAGE_BYTES, self._REGION_BYTES), strict=True):
            reference._obj.value = value

    def c_contention_resources(self, index: int, shared: int, out: Any) -> int:
        resident = 1 if self.gpu.faults.resident_blocks is None else self.gpu.faults.resident_blocks
        out._obj.registers, out._obj.local_bytes = 128, self.gpu.faults.spill_bytes
        out._obj.resident_blocks = resident
        return self.gpu.faults.error

    def c_contention_launch(self, index: int, blocks: int, shared: int, loops: int, *pointers: Any) -> int:
        from micro.bench.contention.sinks import Inputs, expected_sinks

        image, source, spans, sinks, _ = pointers
        words = memory(source, self._REGION_BYTES * 4, np.uint32).reshape(16, -1)
        inputs = Inputs(memory(image, self._IMAGE_BYTES // 4, np.uint32), words)
        expected = expected_sinks(self._row(index), inputs, loops)
        self.gpu.write_spans(spans, blocks, 16, loops * 4 * 16 * 49)
        rows = memory(sinks, 3 * blocks * 512, np.uint32).reshape(3, blocks, 16, 32)
        rows[0] = expected.total.astype(np.float32).view(np.uint32)
        rows[1], rows[2] = expected.left, expected.brought
        if self.gpu.faults.wrong_sink:
            rows[0, 0, 3, 5] ^= 0x00800000
        if self.gpu.faults.wrong_read:
            rows[2, 1, 3, 5] ^= 1
        return self.gpu.faults.error


LIBRARIES = {
    "probe": _Probe,
    "micro": _Micro,
    "instructions": _Instructions,
    "contention": _Contention,
    "gemm": _Gemm,
    "stream": _Stream,
}
