"""Run one arm of contention on the GPU: one launch on all SMs, one block each, timed by the warps, and checked.

The figure of an SM is (last end - first start) over its warps, divided by the passes that they made. The traps: the
first trip of a loop waits for instruction fetch, so an untimed launch goes first; and a loop that did less than it
claims looks cheap, so what each thread hands back is checked against the inputs (``micro.bench.contention.sinks``).
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from micro.bench.contention.design import ARMS, PASSES_PER_LOOP, REFERENCE, WARPS, Arm, ContentionConfig, loops_for
from micro.bench.contention.sinks import Expected, Inputs, check_sinks, expected_sinks
from micro.bench.read_path.library import KernelResources, require_one_block
from micro.gpu.build import CUDA_DIR, BuiltLibrary, header_facts, load_copy, load_library
from micro.gpu.cells import build_for_device
from micro.gpu.cuda_errors import cuda_failure
from micro.gpu.device import (
    SHARED_BYTES_PER_CLK,
    describe_device,
    mma_floor_cycles_per_kstep,
    shared_bytes_for_residency,
)
from micro.gpu.spans import SPAN, check_limits, check_residency, sm_spans
from stats.record.schema import Cell
from stats.run.worker import ArmSet

SOURCE = CUDA_DIR / "contention.cu"


class ContentionLibrary:
    """The C table behind ctypes; works without a GPU as far as its descriptions go."""

    def __init__(self, handle: ctypes.CDLL, archs: tuple[int, ...] = ()) -> None:
        class Row(ctypes.Structure):
            _fields_ = [
                ("name", ctypes.c_char_p),
                *((field, ctypes.c_int) for field in ("kind", "instructions", "mmas", "copies", "shared_bytes")),
            ]

        self.handle, self.archs = handle, archs
        handle.contention_arm.restype = Row
        handle.contention_error_string.restype = ctypes.c_char_p
        rows = [handle.contention_arm(index) for index in range(handle.contention_count())]
        self.table = [(r.name.decode(), r.kind, r.instructions, r.mmas, r.copies) for r in rows]
        self.shared_bytes = [int(r.shared_bytes) for r in rows]
        self.index = {row[0]: index for index, row in enumerate(self.table)}
        sizes = [ctypes.c_int() for _ in range(4)]
        handle.contention_sizes(*map(ctypes.byref, sizes))
        self.warps, self.passes_per_loop, self.image_bytes, self.region_bytes = (size.value for size in sizes)

    def check(self, error: int, doing: str) -> None:
        """Raise for a CUDA error: BenchError, or UserError for a library without code for this GPU."""
        if error:
            raise cuda_failure(error, self.handle.contention_error_string(error).decode(), doing, self.archs)


class _Runner:
    """Runs arms on one device: buffers, launches, readings."""

    def __init__(self, library: ContentionLibrary, config: ContentionConfig, device: Any, shared_bytes: int) -> None:
        import torch

        self.torch, self.library, self.config, self.device = torch, library, config, device
        self.shared_bytes, self.blocks = shared_bytes, int(device.sm_count)
        self.inputs = Inputs.random(library.image_bytes, library.region_bytes, config.seed)
        self.on_device = [
            torch.from_numpy(array.view(np.int32)).to("cuda") for array in (self.inputs.image, self.inputs.source)
        ]
        self.spans = torch.empty(self.blocks * WARPS * SPAN.itemsize, dtype=torch.uint8, device="cuda")
        self.sinks = torch.empty((3, self.blocks, WARPS, 32), dtype=torch.int32, device="cuda")

    def arm(self, arm: Arm) -> Callable[[], Cell]:
        """Check the arm's residency and return what measures it."""
        found = KernelResources()
        index = self.library.index[arm.name]
        error = self.library.handle.contention_resources(index, self.shared_bytes, ctypes.byref(found))
        self.library.check(error, arm.name)
        require_one_block(found, arm.name)
        loops = loops_for(arm, self.config.target_cycles)
        return functools.partial(self._measure, arm, loops, expected_sinks(arm, self.inputs, loops))

    def _launch(self, arm: Arm, loops: int) -> None:
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in (*self.on_device, self.spans, self.sinks)]
        stream = ctypes.c_void_p(self.torch.cuda.current_stream().cuda_stream)
        error = self.library.handle.contention_launch(
            self.library.index[arm.name], self.blocks, self.shared_bytes, loops, *pointers, stream
        )
        self.library.check(error, arm.name)

    def _measure(self, arm: Arm, loops: int, expected: Expected) -> Cell:
        self._launch(arm, 1)
        self.sinks.fill_(-1)
        self._launch(arm, loops)
        self.torch.cuda.synchronize()
        spans = sm_spans(self.spans.cpu().numpy().view(SPAN))
        check_sinks(arm.name, self.sinks.cpu().numpy().view(np.uint32), expected)
        check_residency(spans, int(self.device.sm_count), 1, WARPS, arm.name)
        passes = loops * PASSES_PER_LOOP
        floor = mma_floor_cycles_per_kstep(self.device.compute_capability, arm.mmas) if arm.with_mma else None
        check_limits(spans, passes, arm.port_cycles * SHARED_BYTES_PER_CLK, floor, arm.name)
        each = spans.cycles_per_kstep(passes)  # a pass has the mma of a k-step
        values = {
            "cycles_per_pass": float(each.mean()),
            "cycles_per_pass_lowest_sm": float(each.min()),
            "cycles_per_pass_highest_sm": float(each.max()),
        }
        return Cell(float(spans.ns.mean()), float(spans.cycles.mean()), 1, spans.clock_mhz, values)


def _opened(built: BuiltLibrary, handle: ctypes.CDLL) -> ContentionLibrary:
    return ContentionLibrary(handle, built.archs)


def make_arms(config: ContentionConfig, device_index: int = 0) -> ArmSet:
    """The ArmSet of one fresh process (stats.run.trials), with the A/A twin from a separately loaded copy of the
    library.

    Raises UserError for a build that fails, BenchError for a CUDA error. Arms whose ring of copies does not fit the
    chip's shared memory are skipped.
    """
    device, properties = describe_device(device_index)
    built = build_for_device("contention", [SOURCE], device_index)
    library = _opened(built, load_library(built))
    shared_bytes = shared_bytes_for_residency(properties, 1, library.image_bytes)
    runner = _Runner(library, config, device, shared_bytes)
    arms, skipped, static = {}, {}, {}
    for arm in ARMS:
        needed = library.shared_bytes[library.index[arm.name]]
        if needed > shared_bytes:
            skipped[arm.name] = f"needs {needed} bytes of shared memory; this chip gives a block {shared_bytes}"
            continue
        arms[arm.name], static[arm.name] = runner.arm(arm), arm.static()
    twin = _Runner(_opened(built, load_copy(built, "twin")), config, device, shared_bytes)
    arms[f"{REFERENCE}.twin"], static[f"{REFERENCE}.twin"] = twin.arm(ARMS[0]), ARMS[0].static()
    return ArmSet(
        arms=arms,
        skipped=skipped,
        static=static,
        device=device,
        **header_facts(built),
        workload={"kernel": "contention", "blocks_per_sm": 1, "warps": WARPS},
    )
