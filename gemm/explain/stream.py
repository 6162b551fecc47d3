"""Measure L2's ceiling and two latencies with ``gemm/cuda/stream.cu``: the arms of a run, one process.

tiles_natural and tiles_transposed repeat the GEMM's copies without its multiplications: their cycles per warp k-step
are the L2 ceiling of a variant, and their ratio is what the global-to-shared form costs by itself. reads_A1 and its
like add the reads of a variant: what is then above its ceilings is what copies and loads cost each other. The trap:
without the forced residency four such blocks would fit an SM, and more copies would be under way than the GEMM has.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field

from gemm.kernel.arguments import parse_shape
from gemm.kernel.library import CUDA_DIR, INCLUDE_DIRS
from micro.gpu.build import BuiltLibrary, build_library, header_facts, load_copy, load_library
from micro.model.layout import layout
from micro.model.variants import VARIANTS
from stats.base.errors import BenchError
from stats.record.schema import Cell, Record
from stats.run.config import TrialConfig
from stats.run.progress import Progress
from stats.run.trials import run_trials
from stats.run.worker import ArmSet

TOOL = "gemm-bench explain stream"
# In the order of the table in stream.cu.
STREAM_ARMS = (
    "tiles_natural",
    "tiles_transposed",
    *(f"reads_{variant}" for variant in VARIANTS),
    "distinct",
    "cp_async_latency",
    "barrier",
)
_REFERENCE = STREAM_ARMS[0]
_CYCLES = ("cp_async_latency", "barrier")  # arms whose kernel counts its own cycles
_DISTINCT_PASSES = 200
_BARRIERS = 4096
_OPT_IN_BYTES = (48 * 1024, 64 * 1024)


class StreamConfig(TrialConfig):
    """``configs/stream.yaml``."""

    shape: str = "4096x4096x4096"
    launches: int = Field(10, ge=1, le=1000)
    blocks_per_sm: int = Field(2, ge=1, le=2)


class _Stream:
    """One process: the library, its twin, the operands, and one callable per arm."""

    def __init__(self, config: StreamConfig, device_index: int) -> None:
        import torch

        from micro.gpu.cells import CellTimer
        from micro.gpu.device import describe_device, shared_bytes_for_residency

        self.torch, self.config = torch, config
        self.timer = CellTimer(device_index)
        _, properties = describe_device(device_index)
        arch = self.timer.device.arch
        self.built: BuiltLibrary = build_library(
            "stream", [CUDA_DIR / "stream.cu"], archs=[arch], include_dirs=INCLUDE_DIRS
        )
        self.library = load_library(self.built)
        if (count := self.library.stream_kernel_count()) != len(STREAM_ARMS):
            raise BenchError(f"stream: the library holds {count} kernels, STREAM_ARMS names {len(STREAM_ARMS)}")
        self.shape = parse_shape(config.shape)
        m, n, k = self.shape
        self.sms = self.timer.device.sm_count
        self.shared = shared_bytes_for_residency(properties, config.blocks_per_sm, self.library.stream_ring_bytes())
        blocks, region = config.blocks_per_sm * self.sms, self.library.stream_region_bytes()
        tiles = (m // layout().constants.bm) * (n // layout().constants.bn)
        elements = max(m * k, blocks * region // 2)
        generator = torch.Generator(device="cuda").manual_seed(config.seed)
        self.a = torch.randn(elements, device="cuda", generator=generator).to(torch.bfloat16)
        self.b = torch.randn(n * k, device="cuda", generator=generator).to(torch.bfloat16)
        self.out = torch.zeros(max(blocks, tiles) * 32 * layout().constants.warps, dtype=torch.int32, device="cuda")

    def check(self, library: ctypes.CDLL, error: int, what: str) -> None:
        if error:
            library.stream_error_string.restype = ctypes.c_char_p
            raise BenchError(f"{what}: CUDA says {library.stream_error_string(error).decode()!r}")

    def launch(self, library: ctypes.CDLL, name: str) -> Callable[[], None]:
        """A function that enqueues the arm's kernel once; its residency is checked here."""
        m, n, k = self.shape
        index = STREAM_ARMS.index(name)
        blocks, passes = self.config.blocks_per_sm * self.sms, k
        if name.startswith(("tiles", "reads")):
            sizes = layout().constants
            blocks = (m // sizes.bm) * (n // sizes.bn)
        elif name == "distinct":
            passes = _DISTINCT_PASSES
        elif name in _CYCLES:
            blocks = 1 if name == "cp_async_latency" else self.sms
        resident = ctypes.c_int()
        self.check(library, library.stream_prepare(index, self.shared, ctypes.byref(resident)), name)
        if resident.value != self.config.blocks_per_sm:
            raise BenchError(f"{name}: {resident.value} blocks fit an SM, intended {self.config.blocks_per_sm}")
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in (self.a, self.b)]
        tail = [ctypes.c_void_p(self.out.data_ptr()), ctypes.c_void_p(self.torch.cuda.current_stream().cuda_stream)]

        def run() -> None:
            error = library.stream_launch(index, blocks, self.shared, *pointers, m, n, passes, _BARRIERS, *tail)
            if error:
                self.check(library, error, name)

        return run

    def measure(self, name: str, launch: Callable[[], None]) -> Cell:
        """One cell with its figure: bytes per clock and SM, or cycles of one copy or barrier."""
        launch()
        cell = self.timer.measure(launch, self.config.launches)
        m, n, k = self.shape
        sizes = layout().constants
        cycles = cell.sm_cycles / cell.launches
        if name in _CYCLES:
            taken = self.out[: 1 if name == "cp_async_latency" else self.sms]
            steps = self.library.stream_latency_steps() if name == "cp_async_latency" else _BARRIERS
            return replace(cell, values={f"{name}_cycles": float(taken.float().mean()) / steps})
        if name == "distinct":
            blocks = self.config.blocks_per_sm * self.sms
            moved = float(blocks * self.library.stream_region_bytes() * _DISTINCT_PASSES)
            return replace(cell, values={"bytes_per_clk_per_sm": moved / self.sms / cycles})
        tiles = (m // sizes.bm) * (n // sizes.bn) * (k // sizes.bk)
        ksteps = tiles * sizes.warps * sizes.k_steps / self.sms
        values = {
            "bytes_per_clk_per_sm": tiles * sizes.stage_bytes / self.sms / cycles,
            "cycles_per_kstep": cycles / ksteps,
        }
        return replace(cell, values=values)

    def opt_in(self) -> dict[str, Any]:
        """Whether launches with 48 and 64 KiB of dynamic shared memory succeed, without and with the opt-in."""
        stream = ctypes.c_void_p(self.torch.cuda.current_stream().cuda_stream)
        found = {}
        for size in _OPT_IN_BYTES:
            for opt_in in (0, 1):
                error = self.library.stream_opt_in(size, opt_in, stream)
                found[f"launch_{size}_bytes_{'with' if opt_in else 'without'}_opt_in"] = error == 0
        self.torch.cuda.synchronize()
        return found


def stream_arms(config: StreamConfig, device_index: int) -> ArmSet:
    """Build and return the arms. Raises UserError or BenchError as the build and CUDA do."""
    bench = _Stream(config, device_index)
    sources = dict.fromkeys(STREAM_ARMS, bench.library) | {f"{_REFERENCE}.twin": load_copy(bench.built, "twin")}
    arms = {}
    for name, library in sources.items():
        kind = name.removesuffix(".twin")
        arms[name] = functools.partial(bench.measure, kind, bench.launch(library, kind))
    m, n, k = bench.shape
    return ArmSet(
        arms=arms,
        static={_REFERENCE: bench.opt_in()},
        device=bench.timer.device,
        **header_facts(bench.built),
        workload={"kernel": "stream", "m": m, "n": n, "k": k, "blocks_per_sm": config.blocks_per_sm},
    )


def run_stream(
    config: StreamConfig, *, device_index: int, out: Path | None, resume: bool = False, progress: Progress | None = None
) -> Record:
    """Measure; raises what ``stats.run.trials.run_trials`` raises."""
    spec = replace(
        config.trial_spec(TOOL, _REFERENCE, f"{_REFERENCE}.twin", preload=["torch"]),
        comparisons=config.comparisons or [(STREAM_ARMS[0], STREAM_ARMS[1])],
        launches=config.launches,
    )
    factory = functools.partial(stream_arms, config, device_index)
    return run_trials(spec, factory, out=out, resume=resume, progress=progress)
