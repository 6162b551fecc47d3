"""Time any work on the current CUDA stream in two clocks: nanoseconds by CUDA events, cycles by the probe on every SM.

hold -> probe -> event -> launches -> event -> probe. The hold keeps the device waiting until the host has enqueued
the cell, so no launch gap is counted. The trap: an average of clocks is not the clock of the work, so cycles are
counted, not computed from a clock that somebody read.
"""

from __future__ import annotations

import ctypes
import functools
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from micro.gpu.build import CUDA_DIR, BuiltLibrary, build_library, load_library
from micro.gpu.cuda_errors import cuda_failure
from micro.gpu.device import describe_device
from stats.base.errors import BenchError
from stats.record.schema import Cell
from stats.run.worker import ArmSet

_STAMP = np.dtype([("clock", "<u8"), ("ns", "<u8"), ("sm", "<u4"), ("pad", "<u4")])
_LONGEST_HOLD_NS = 500_000_000  # then a cell starts anyhow: its host died, or waits for the device


def build_for_device(name: str, sources: list[Path], index: int, **options: Any) -> BuiltLibrary:
    """Build a library for the architecture of device ``index``."""
    device, _ = describe_device(index)
    return build_library(name, sources, archs=[device.arch], **options)


class CellTimer:
    """Measures cells on one device and its current stream."""

    def __init__(self, device_index: int = 0, *, l2_mode: Literal["hot", "flushed"] = "hot") -> None:
        import torch

        self._torch = torch
        self.device, properties = describe_device(device_index)
        self._library = load_library(build_for_device("probe", [CUDA_DIR / "probe.cu"], device_index))
        self._library.probe_error_string.restype = ctypes.c_char_p
        self._shared_bytes = int(properties.shared_memory_per_block_optin)
        self._check(self._library.probe_prepare(self._shared_bytes))
        sms = self.device.sm_count
        self._stamps = torch.empty((2, sms, _STAMP.itemsize), dtype=torch.uint8, device="cuda")
        self._events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        self._flag = torch.zeros(1, dtype=torch.int32).pin_memory()
        self._ticket = 0
        self._flush = None
        if l2_mode == "flushed":
            self._flush = torch.empty(2 * properties.L2_cache_size, dtype=torch.uint8, device="cuda")

    def _check(self, error: int) -> None:
        if error:
            raise cuda_failure(error, self._library.probe_error_string(error).decode(), "timing probe")

    def _stream(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self._torch.cuda.current_stream().cuda_stream)

    def _probe(self, which: int) -> None:
        pointer = ctypes.c_void_p(self._stamps[which].data_ptr())
        self._check(self._library.probe_launch(self.device.sm_count, self._shared_bytes, pointer, self._stream()))

    def spin(self, cycles: int) -> None:
        """Enqueue a kernel in which every SM spends ``cycles`` of its own cycles: an effect of known size."""
        self._check(self._library.probe_spin(self.device.sm_count, ctypes.c_ulonglong(cycles), self._stream()))

    def measure(self, launch: Callable[[], object], launches: int) -> Cell:
        """Run ``launch`` ``launches`` times and return their total time and cycles.

        With a flushed L2 each launch is a bracket of its own, behind a write of twice the L2. Raises BenchError for
        CUDA errors and when a probe did not find every SM exactly once.
        """
        if self._flush is None:
            return self._bracket(launch, launches)
        parts = []
        for _ in range(launches):
            self._flush.zero_()
            parts.append(self._bracket(launch, 1))
        ns = sum(part.time_ns for part in parts)
        cycles = sum(part.sm_cycles for part in parts)
        weighted = sum(part.clock_mhz * part.time_ns for part in parts) / ns
        return Cell(time_ns=ns, sm_cycles=cycles, launches=launches, clock_mhz=weighted)

    def _bracket(self, launch: Callable[[], object], launches: int) -> Cell:
        """One bracket, repeated once if the host was late: a first launch loads code, which can wait for the device."""
        for _ in range(2):
            cell, enqueued_s = self._try_bracket(launch, launches)
            if enqueued_s * 1e9 < _LONGEST_HOLD_NS:
                return cell
        raise BenchError(
            f"enqueuing took {enqueued_s:.2f} s: the function waits for the device, so launches cannot be timed alone; "
            "move synchronisation (item(), cpu(), synchronize()) out of it"
        )

    def _try_bracket(self, launch: Callable[[], object], launches: int) -> tuple[Cell, float]:
        self._ticket = self._ticket % 1_000_000 + 1
        flag = ctypes.c_void_p(self._flag.data_ptr())
        longest = ctypes.c_ulonglong(_LONGEST_HOLD_NS)
        started_s = time.monotonic()
        self._check(self._library.probe_hold(flag, self._ticket, longest, self._stream()))
        self._probe(0)
        self._events[0].record()
        for _ in range(launches):
            launch()
        self._events[1].record()
        self._probe(1)
        enqueued_s = time.monotonic() - started_s
        self._flag[0] = self._ticket  # the device sees it and starts
        self._torch.cuda.synchronize()
        time_ns = self._events[0].elapsed_time(self._events[1]) * 1e6
        stamps = self._stamps.cpu().numpy().view(_STAMP)[..., 0]
        return self._cell(stamps, time_ns, launches), enqueued_s

    def _cell(self, stamps: np.ndarray[Any, Any], time_ns: float, launches: int) -> Cell:
        stamps = np.sort(stamps, axis=1, order="sm")
        sms = self.device.sm_count
        for probe in stamps:
            if len(np.unique(probe["sm"])) != sms:
                raise BenchError(f"probe: {len(np.unique(probe['sm']))} of {sms} SMs answered; is the GPU shared?")
        if not np.array_equal(stamps[0]["sm"], stamps[1]["sm"]):
            raise BenchError("probe: the two probes found different SMs; is the GPU shared?")
        cycles = (stamps[1]["clock"] - stamps[0]["clock"]).astype(np.float64)
        elapsed_ns = (stamps[1]["ns"] - stamps[0]["ns"]).astype(np.float64)
        clock_mhz = float(np.mean(cycles / elapsed_ns)) * 1e3 if np.all(elapsed_ns > 0) else math.nan
        return Cell(time_ns=time_ns, sm_cycles=float(cycles.mean()), launches=launches, clock_mhz=clock_mhz)


def timed_functions(
    functions: Mapping[str, Callable[[], object]],
    launches: int = 10,
    reference: str | None = None,
    twin: Callable[[], object] | None = None,
    device_index: int = 0,
) -> ArmSet:
    """Arms that time the given functions, and an A/A twin of the reference (by default the first function again)."""
    timer = CellTimer(device_index)
    reference = reference or next(iter(functions))
    arms = {name: functools.partial(timer.measure, function, launches) for name, function in functions.items()} | {
        f"{reference}.twin": functools.partial(timer.measure, twin or functions[reference], launches)
    }
    import torch

    return ArmSet(
        arms=arms,
        device=timer.device,
        software={"torch": torch.__version__, "cuda_runtime": str(torch.version.cuda)},
        workload={"functions": sorted(functions), "launches": launches},
    )


def function_arms(make: Callable[[], Mapping[str, Callable[[], object]]], **options: Any) -> Callable[[], ArmSet]:
    """A factory for ``stats.run.trials.run_trials``: each fresh process calls ``make()`` and times what it returns."""
    return functools.partial(_make_arms, make, options)


def _make_arms(make: Callable[[], Mapping[str, Callable[[], object]]], options: dict[str, Any]) -> ArmSet:
    return timed_functions(make(), **options)
