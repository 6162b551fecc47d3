"""Run one arm on the GPU: one launch on all SMs, one block each, timed by the warps themselves, and checked.

The figure of an SM is (last end - first start) over its warps, divided by the instructions that it did. The traps: the
first pass through a loop waits for instruction fetch, so an untimed launch goes first; two blocks on one SM measure
another residency; a chain that read a wrong word ran on another pattern; and a rate above what 32 banks can deliver is
a wrong measurement. Each of the last three stops the run.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from micro.bench.instructions.design import (
    INSTRUCTIONS_PER_LOOP,
    Arm,
    InstructionsConfig,
    arms_of,
    loops_for,
    reference_arm,
)
from micro.bench.read_path.library import KernelResources, require_one_block
from micro.gpu.build import CUDA_DIR, header_facts, load_copy, load_library
from micro.gpu.cells import build_for_device
from micro.gpu.device import describe_device, mma_floor_cycles_per_kstep, shared_bytes_for_residency
from micro.gpu.spans import SPAN, TOLERANCE, check_limits, check_residency, sm_spans
from micro.model.patterns import IMAGE_BYTES, Instruction, Work, image, port_bytes
from stats.base.errors import BenchError
from stats.record.schema import Cell
from stats.run.worker import ArmSet

SOURCE = CUDA_DIR / "instructions.cu"
FMA_PER_MMA = 16 * 8 * 16
_DID_NOT_RUN = 0xFFFFFFFF


def check_mma_limit(arm: str, cycles_per_mma: float, compute_capability: str) -> None:
    """Raise BenchError when an SM multiplied faster than the chip's highest published rate, naming both."""
    floor = mma_floor_cycles_per_kstep(compute_capability, 1)
    if floor is not None and cycles_per_mma * TOLERANCE < floor:
        raise BenchError(
            f"{arm}: {cycles_per_mma:.3f} cycles per mma and SM is below the tensor cores' floor of {floor:.3f}: "
            "a measurement error, nothing is reported"
        )


class InstructionsLibrary:
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
        self.image_end_bytes: int = handle.instructions_image_address() + IMAGE_BYTES

    def check(self, error: int, what: str) -> None:
        """Raise BenchError for a CUDA error, naming what ran."""
        if error:
            raise BenchError(f"{what}: CUDA says {self.handle.instructions_error_string(error).decode()}")


@dataclass(frozen=True)
class _Prepared:
    """An arm with what its launch needs; ``blocks`` is one for every SM."""

    arm: Arm
    index: int
    step: int
    blocks: int
    on_device: Any
    offsets: Any
    data: NDArray[np.uint8]


class _Runner:
    """Runs arms on one device: buffers, launches, readings."""

    def __init__(
        self, library: InstructionsLibrary, config: InstructionsConfig, device: Any, shared_bytes: int
    ) -> None:
        import torch

        self.torch, self.library, self.config, self.device = torch, library, config, device
        self.shared_bytes = shared_bytes
        most = max(config.throughput_warps, *config.warps)
        self.spans = torch.empty(device.sm_count * most * SPAN.itemsize, dtype=torch.uint8, device="cuda")
        # One row for the untimed launch and one for the timed, which starts as "did not run".
        self.sinks = torch.empty((2, device.sm_count * most * 32), dtype=torch.int32, device="cuda")

    def arm(self, arm: Arm) -> Callable[[], Cell]:
        """Upload the arm's image, check its residency, and return what measures it."""
        data = image(arm.instruction, arm.pattern, self.config.seed)
        on_device = self.torch.from_numpy(data.copy()).cuda()
        offsets = self.torch.tensor(arm.pattern.offsets, dtype=self.torch.int32, device="cuda")
        index, step = self.library.index[arm.instruction.name], self.library.in_flight.index(arm.in_flight)
        found = KernelResources()
        error = self.library.handle.instructions_resources(
            index, step, arm.warps, self.shared_bytes, ctypes.byref(found)
        )
        self.library.check(error, arm.name)
        require_one_block(found, arm.name)
        blocks = int(self.device.sm_count)
        return functools.partial(self._measure, _Prepared(arm, index, step, blocks, on_device, offsets, data))

    def _launch(self, made: _Prepared, loops: int, sinks: Any) -> None:
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in (made.on_device, made.offsets, self.spans, sinks)]
        stream = ctypes.c_void_p(self.torch.cuda.current_stream().cuda_stream)
        error = self.library.handle.instructions_launch(
            made.index, made.step, made.blocks, made.arm.warps, self.shared_bytes, loops, *pointers, stream
        )
        self.library.check(error, made.arm.name)

    def _measure(self, made: _Prepared) -> Cell:
        arm, blocks = made.arm, made.blocks
        loops = loops_for(arm, self.config.target_cycles)
        self.sinks.fill_(-1)
        self._launch(made, 1, self.sinks[0])
        self._launch(made, loops, self.sinks[1])
        self.torch.cuda.synchronize()
        raw = self.spans[: blocks * arm.warps * SPAN.itemsize].cpu().numpy()
        spans = sm_spans(raw.view(SPAN))
        sinks = self.sinks[1, : blocks * arm.warps * 32].cpu().numpy().view(np.uint32)
        instructions = loops * INSTRUCTIONS_PER_LOOP
        check_sinks(arm, sinks.reshape(-1, 32), made.data, instructions // arm.in_flight)
        check_residency(spans, blocks, 1, arm.warps, arm.name)
        check_limits(spans, instructions, port_bytes(arm.instruction, arm.pattern), None, arm.name)
        each = spans.cycles_per_kstep(instructions)  # per instruction: the loop here has one in the place of a k-step
        mean = float(each.mean())
        values = {
            "cycles_per_instruction": mean,
            "cycles_per_instruction_lowest_sm": float(each.min()),
            "cycles_per_instruction_highest_sm": float(each.max()),
        }
        if arm.instruction.work is Work.MMA:
            check_mma_limit(arm.name, float(each.min()), self.device.compute_capability)
            values["fma_per_clk_per_sm"] = FMA_PER_MMA / mean
        else:
            values["bytes_per_clk_per_sm"] = arm.instruction.bytes_per_instruction / mean
        return Cell(float(spans.ns.mean()), float(spans.cycles.mean()), 1, spans.clock_mhz, values)


def check_sinks(arm: Arm, sinks: NDArray[np.uint32], data: NDArray[np.uint8], steps: int) -> None:
    """Raise BenchError unless every lane [warps, 32] ended with the right value: the loop ran, on the right data.

    Loads end on their own address and stores are read back (0 = equal); mma must have added A·B ``steps`` times.
    """
    if arm.instruction.work is not Work.MMA:
        if (sinks == _DID_NOT_RUN).any():
            raise BenchError(f"{arm.name}: the kernel did not run; does shared memory start above the image's address?")
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


def make_arms(config: InstructionsConfig, device_index: int = 0) -> ArmSet:
    """The ArmSet of one fresh process (stats.run.trials), with the A/A twin from a separately loaded copy of the
    library.

    Raises UserError for a build that fails, BenchError for a CUDA error. Instructions that the chip lacks are skipped.
    """
    device, properties = describe_device(device_index)
    built = build_for_device("instructions", [SOURCE], device_index)
    library = InstructionsLibrary(load_library(built))
    shared_bytes = shared_bytes_for_residency(properties, 1, library.image_end_bytes)
    runner = _Runner(library, config, device, shared_bytes)
    arch = device.arch
    arms, skipped, static = {}, {}, {}
    wanted = arms_of(config)
    for arm in wanted:
        if arch < arm.instruction.minimum_arch:
            skipped[arm.name] = f"needs sm_{arm.instruction.minimum_arch}; this is sm_{arch}"
            continue
        arms[arm.name] = runner.arm(arm)
        static[arm.name] = arm.static()
    reference = reference_arm(wanted)
    if reference.name in arms:
        twin = _Runner(InstructionsLibrary(load_copy(built, "twin")), config, device, shared_bytes)
        arms[f"{reference.name}.twin"] = twin.arm(reference)
        static[f"{reference.name}.twin"] = reference.static()
    return ArmSet(
        arms=arms,
        skipped=skipped,
        static=static,
        device=device,
        **header_facts(built),
        workload={
            "kernel": "instructions",
            "blocks_per_sm": 1,
            "instructions": sorted({arm.instruction.name for arm in wanted if arm.name in arms}),
        },
    )
