"""A GPU made of NumPy, on which the Python around the kernels runs unchanged where there is none.

torch's tensors are real and lie in host memory (a TorchFunctionMode turns "cuda" into "cpu"); our libraries are Python
objects with the C face of the real ones, which read and write through the pointers they are given; time is a counter
that every launch advances. What it proves is the Python: gates, bookkeeping, figures, messages. Kernels are proved by
the GPU tests. Faults are switched on by name (``Faults``), so that each gate can be seen to bite.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from micro.gpu.build import BuiltLibrary
from tests.stand_in.gpu_libraries import CYCLES_PER_NS, LIBRARIES, SMS, memory

_USERS = (
    *(
        "micro.gpu.build",
        "micro.gpu.cells",
        "micro.bench.read_path.library",
        "micro.bench.read_path.arms",
        "micro.bench.instructions.cells",
    ),
    "micro.bench.contention.cells",
    *("gemm.kernel.library", "gemm.ladder.arms", "gemm.explain.stream"),
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
    ring_bytes: int = 0  # more shared memory than the kernels with cp.async should need
    departing: str = ""  # a kernel with fewer resident blocks
    lost_stream_kernels: int = 0  # fewer than the suite names


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
        from micro.gpu.spans import SPAN

        rows = memory(spans, blocks * warps, SPAN)
        start_ns = self.ns
        self.advance(cycles)
        rows["start_clock"], rows["end_clock"] = start_ns * CYCLES_PER_NS, self.ns * CYCLES_PER_NS
        rows["start_ns"], rows["end_ns"] = start_ns, self.ns
        rows["sm"] = np.repeat(np.arange(blocks) % SMS, warps)

    def build(self, name: str, sources: list[Path], *, archs: list[int], flags: Any = (), **_: Any) -> BuiltLibrary:
        """In place of ``build_library``."""
        return BuiltLibrary(Path(f"/stand-in/{name}.so"), "5" * 16, ("a.cu",), ("-O3",), tuple(archs), "13.0", True)

    def load(self, built: BuiltLibrary, tag: str = "") -> Any:
        """In place of ``load_library`` and ``load_copy``."""
        return LIBRARIES[built.path.stem](self)

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
        put(importlib.import_module("micro.gpu.device"), "cuda_device_count", lambda: 1)
        put(torch, "Generator", lambda *_, **__: generator("cpu"))
        put(torch.cuda, "set_device", lambda _: None)
        put(torch.cuda, "get_device_properties", gpu.properties)
        put(torch.cuda, "current_stream", lambda *_: stream)
        put(torch.cuda, "synchronize", lambda *_: None)
        put(torch.cuda, "mem_get_info", lambda *_: (1 << 34, 1 << 34))
        put(torch.cuda, "Event", lambda **_: _Event(gpu))
        stack.enter_context(_mode(gpu))
        yield gpu
