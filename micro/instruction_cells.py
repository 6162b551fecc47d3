"""Run one arm on the GPU: one launch on all SMs, one block each, timed by the warps themselves, and checked.

The figure of an SM is (last end - first start) over its warps, divided by the instructions that it did. The traps: the
first pass through a loop waits for instruction fetch, so an untimed launch goes first; two blocks on one SM measure another
residency; a chain that read a wrong word ran on another pattern; and a rate above what 32 banks can deliver is a
wrong measurement. Each of these stops the run.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from micro.build import CUDA_DIR, load_copy, load_library
from micro.device import SHARED_BYTES_PER_CLK, mma_floor_cycles_per_kstep
from micro.instructions import (
    INSTRUCTIONS_PER_LOOP,
    Arm,
    InstructionsConfig,
    arms_of,
    loops_for,
    reference_arm,
)
from micro.patterns import IMAGE_BYTES, Instruction, Work, image, port_bytes
from stats.errors import BenchError
from stats.records import Cell

__all__ = ["SOURCE", "Library", "Reading", "check_limits", "check_sinks", "make_arms", "read_spans"]

SOURCE = CUDA_DIR / "instructions.cu"
LIMIT_SLACK = 1.01
SPAN = np.dtype(
    [("start_clock", "<u8"), ("end_clock", "<u8"), ("start_ns", "<u8"), ("end_ns", "<u8"), ("sm", "<u4"), ("pad", "<u4")]
)
_BAD_BASE = 0xFFFFFFFF


@dataclass(frozen=True)
class Reading:
    """One cell in SM cycles: totals are means over the SMs, per-instruction figures are of the SM as a whole."""

    sm_cycles: float
    time_ns: float
    cycles_per_instruction: float
    lowest: float  # of any SM
    highest: float


def read_spans(spans: NDArray[Any], instructions_per_warp: int) -> Reading:
    """Last end minus first start on each SM, from the spans [blocks, warps].

    Raises BenchError when two blocks shared an SM: the figure would be that of another residency.
    """
    blocks, warps = spans.shape
    if len(np.unique(spans["sm"][:, 0])) != blocks or (spans["sm"] != spans["sm"][:, :1]).any():
        raise BenchError(
            f"residency: {blocks} blocks ran on {len(np.unique(spans['sm']))} SMs, not one on each; is the GPU shared?"
        )
    cycles = (spans["end_clock"].max(axis=1) - spans["start_clock"].min(axis=1)).astype(np.float64)
    elapsed = (spans["end_ns"].max(axis=1) - spans["start_ns"].min(axis=1)).astype(np.float64)
    each = cycles / (instructions_per_warp * warps)
    return Reading(
        float(cycles.mean()), float(elapsed.mean()), float(each.mean()), float(each.min()), float(each.max())
    )


def check_limits(arm: Arm, fastest_cycles_per_instruction: float, compute_capability: str) -> None:
    """Raise BenchError for a cell that beats the hardware, naming the figure and the limit.

    Shared memory: 128 bytes of distinct words per clock and SM. mma: the chip's highest published rate.
    """
    cycles = fastest_cycles_per_instruction
    if not (math.isfinite(cycles) and cycles > 0):
        raise BenchError(f"{arm.name}: {cycles} cycles per instruction is no measurement")
    if arm.instruction.work is Work.MMA:
        floor = mma_floor_cycles_per_kstep(compute_capability, 1)
        if floor is not None and cycles * LIMIT_SLACK < floor:
            raise BenchError(f"{arm.name}: {cycles:.3f} cycles per mma and SM is below the chip's limit of {floor:.3f}")
        return
    rate = port_bytes(arm.instruction, arm.pattern) / cycles
    if rate > SHARED_BYTES_PER_CLK * LIMIT_SLACK:
        raise BenchError(
            f"{arm.name}: {rate:.1f} B/clk/SM of distinct words is above the limit of {SHARED_BYTES_PER_CLK} B/clk/SM"
        )


class Library:
    """The C table behind ctypes; works without a GPU as far as its descriptions go."""

    def __init__(self, handle: ctypes.CDLL) -> None:
        class Info(ctypes.Structure):
            _fields_ = [
                ("name", ctypes.c_char_p),
                *((field, ctypes.c_int) for field in ("work", "matrices", "bytes_per_lane", "minimum_arch")),
            ]

        self.handle = handle
        handle.instructions_info.restype = Info
        handle.instructions_error_string.restype = ctypes.c_char_p
        infos = [handle.instructions_info(index) for index in range(handle.instructions_count())]
        self.table = [(i.name.decode(), i.work, i.matrices, i.bytes_per_lane, i.minimum_arch) for i in infos]
        self.index = {row[0]: index for index, row in enumerate(self.table)}
        self.in_flight: list[int] = []
        while step := handle.instructions_in_flight(len(self.in_flight)):
            self.in_flight.append(step)

    def check(self, error: int, what: str) -> None:
        """Raise BenchError for a CUDA error, naming what ran."""
        if error:
            raise BenchError(f"{what}: CUDA says {self.handle.instructions_error_string(error).decode()}")


@dataclass(frozen=True)
class _Prepared:
    """An arm with what its launch needs; ``blocks`` is one for every SM (for clusters: that can hold a pair)."""

    arm: Arm
    index: int
    step: int
    blocks: int
    on_device: Any
    offsets: Any
    data: NDArray[np.uint8]


class _Runner:
    """Runs arms on one device: buffers, launches, readings."""

    def __init__(self, library: Library, config: InstructionsConfig, device: Any, shared_bytes: int) -> None:
        import torch

        self.torch, self.library, self.config, self.device = torch, library, config, device
        self.shared_bytes = shared_bytes
        most = max(config.throughput_warps, *config.warps)
        self.spans = torch.empty(device.sm_count * most * SPAN.itemsize, dtype=torch.uint8, device="cuda")
        self.sinks = torch.empty(device.sm_count * most * 32, dtype=torch.int32, device="cuda")

    def arm(self, arm: Arm) -> Callable[[], Cell]:
        """Upload the arm's image, check its residency, and return what measures it."""
        data = image(arm.instruction, arm.pattern, self.config.seed)
        on_device = self.torch.from_numpy(data.copy()).cuda()
        offsets = self.torch.tensor(arm.pattern.offsets, dtype=self.torch.int32, device="cuda")
        index, step = self.library.index[arm.instruction.name], self.library.in_flight.index(arm.in_flight)
        numbers = [ctypes.c_int() for _ in range(4)]
        error = self.library.handle.instructions_prepare(
            index, step, arm.warps, self.shared_bytes, *(ctypes.byref(number) for number in numbers)
        )
        self.library.check(error, arm.name)
        registers, local_bytes, resident, at_once = (number.value for number in numbers)
        if resident != 1 or local_bytes:
            raise BenchError(
                f"{arm.name}: {resident} blocks fit an SM and {local_bytes} bytes spill ({registers} registers); "
                f"one block and no spill are required"
            )
        blocks = min(at_once, int(self.device.sm_count))
        return functools.partial(self._measure, _Prepared(arm, index, step, blocks, on_device, offsets, data))

    def _launch(self, made: _Prepared, loops: int) -> None:
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in (made.on_device, made.offsets, self.spans, self.sinks)]
        stream = ctypes.c_void_p(self.torch.cuda.current_stream().cuda_stream)
        error = self.library.handle.instructions_launch(
            made.index, made.step, made.blocks, made.arm.warps, self.shared_bytes, loops, *pointers, stream
        )
        self.library.check(error, made.arm.name)

    def _measure(self, made: _Prepared) -> Cell:
        arm, blocks = made.arm, made.blocks
        loops = loops_for(arm, self.config.target_cycles)
        self._launch(made, 1)
        self._launch(made, loops)
        self.torch.cuda.synchronize()
        raw = self.spans[: blocks * arm.warps * SPAN.itemsize].cpu().numpy()
        spans = raw.view(SPAN).reshape(blocks, arm.warps)
        sinks = self.sinks[: blocks * arm.warps * 32].cpu().numpy().view(np.uint32)
        check_sinks(arm, sinks.reshape(-1, 32), made.data, loops * INSTRUCTIONS_PER_LOOP // arm.in_flight)
        reading = read_spans(spans, loops * INSTRUCTIONS_PER_LOOP)
        check_limits(arm, reading.lowest, self.device.compute_capability)
        values = {
            "cycles_per_instruction": reading.cycles_per_instruction,
            "cycles_per_instruction_lowest_sm": reading.lowest,
            "cycles_per_instruction_highest_sm": reading.highest,
        }
        if arm.instruction.work is Work.MMA:
            values["fma_per_clk_per_sm"] = 16 * 8 * 16 / reading.cycles_per_instruction
        else:
            values["bytes_per_clk_per_sm"] = arm.instruction.bytes_per_instruction / reading.cycles_per_instruction
        clock_mhz = reading.sm_cycles / reading.time_ns * 1e3 if reading.time_ns > 0 else math.nan
        return Cell(reading.time_ns, reading.sm_cycles, 1, clock_mhz, values)


def check_sinks(arm: Arm, sinks: NDArray[np.uint32], data: NDArray[np.uint8], steps: int) -> None:
    """Raise BenchError unless every lane [warps, 32] ended with the right value: the loop ran, on the right data.

    Loads end on their own address and stores are read back (0 = equal); mma must have added A·B ``steps`` times.
    """
    if arm.instruction.work is not Work.MMA:
        if (sinks == _BAD_BASE).any():
            raise BenchError(f"{arm.name}: shared memory starts above the image's address; the kernel did not run")
        if sinks.any():
            raise BenchError(f"{arm.name}: {np.count_nonzero(sinks)} lanes ended on a wrong address or value")
        return
    expected = steps * first_mma_product(arm.instruction, data)
    got = sinks.view(np.float32).astype(np.float64)
    # fp32 accumulation of equal addends drifts by up to steps / 2**24 of the sum, and the unit truncates.
    allowed = 0.02 * np.abs(expected) + 1e-3 * steps
    if not (np.abs(got - expected) <= allowed).all():
        raise BenchError(f"{arm.name}: the accumulator is not {steps} times the product of the fragments")


def first_mma_product(instruction: Instruction, data: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Element c0 of A·B for each lane [32], from the fragments in the image (PTX ISA, fragments of mma.m16n8k16)."""
    halves = data[: 32 * 6 * 4].view(np.uint16).reshape(32, 6, 2)
    if instruction.name == "mma.f16":
        values = halves.view(np.float16).astype(np.float64)
    else:
        values = (halves.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    a, b = np.zeros((16, 16)), np.zeros((16, 8))
    for lane in range(32):
        g, t = divmod(lane, 4)
        for half in range(2):
            for reg in range(4):
                a[g + 8 * (reg & 1), 2 * t + 8 * (reg >> 1) + half] = values[lane, reg, half]
            for reg in range(2):
                b[2 * t + 8 * reg + half, g] = values[lane, 4 + reg, half]
    product = a @ b
    return np.array([product[lane // 4, 2 * (lane % 4)] for lane in range(32)])


def make_arms(config: Mapping[str, Any], device_index: int = 0) -> Any:
    """The ArmSet of one fresh process (stats.trials), with the A/A twin from a separately loaded copy of the library.

    Raises UserError for a build that fails, BenchError for a CUDA error. Instructions that the chip lacks are skipped.
    """
    import torch

    from micro.cells import build_for_device
    from micro.device import describe_device, shared_bytes_for_residency
    from stats.trials import ArmSet

    settings = InstructionsConfig.model_validate(config)
    device, properties = describe_device(device_index)
    built = build_for_device("instructions", [SOURCE], device_index)
    shared_bytes = shared_bytes_for_residency(properties, 1, IMAGE_BYTES + 1024)
    runner = _Runner(Library(load_library(built)), settings, device, shared_bytes)
    arch = int(device.compute_capability.replace(".", ""))
    arms, skipped, static = {}, {}, {}
    wanted = arms_of(settings)
    for arm in wanted:
        if arch < arm.instruction.minimum_arch:
            skipped[arm.name] = f"needs sm_{arm.instruction.minimum_arch}; this is sm_{arch}"
            continue
        arms[arm.name] = runner.arm(arm)
        static[arm.name] = arm.static()
    reference = reference_arm(wanted)
    if reference.name in arms:
        twin = _Runner(Library(load_copy(built, "twin")), settings, device, shared_bytes)
        arms[f"{reference.name}.twin"] = twin.arm(reference)
        static[f"{reference.name}.twin"] = reference.static()
    return ArmSet(
        arms=arms,
        skipped=skipped,
        static=static,
        device=device,
        software={"torch": torch.__version__, "cuda_runtime": str(torch.version.cuda), "nvcc": built.nvcc},
        source_hash=built.source_hash,
        build_flags=list(built.flags),
        workload={"instructions": sorted({arm.instruction.name for arm in wanted if arm.name in arms})},
    )
