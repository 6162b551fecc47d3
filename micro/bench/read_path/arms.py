"""The arms of the micro-benchmark: variant × swizzle × work, verified before any is timed.

A factory for ``stats.run.trials``: it runs in each fresh process, builds or finds the library, checks what every
variant reads against the fragment map, and returns one callable per arm. The timed launch is verified too: its sink
must be the xor of the fragments it should have read.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from micro.bench.read_path.library import SOURCE, MicroLibrary, Tiles, expected_fragments, random_tiles
from micro.gpu.build import header_facts, load_copy
from micro.gpu.cells import build_for_device
from micro.gpu.device import describe_device, mma_floor_cycles_per_kstep, shared_bytes_for_residency
from micro.gpu.spans import SPAN, check_limits, check_residency, sm_spans
from micro.model.arm_names import MMA_ARM, Work, arm_name, parse_arm
from micro.model.predict import predict_load_only
from micro.model.variants import BLayout
from stats.base.errors import BenchError, UserError
from stats.record.schema import Cell
from stats.run.worker import ArmSet


@dataclass(frozen=True)
class Arm:
    """One arm on the device: which kernel, and what its launch needs."""

    name: str
    library: MicroLibrary
    index: int
    work: Work
    tiles: Any  # device tensor
    expected_sink: NDArray[np.uint32] | None  # [threads]


class _Bench:
    """What all arms of one process share: device, buffers, sizes."""

    def __init__(self, device_index: int, blocks_per_sm: int, loops: int, launches: int) -> None:
        import torch

        self.torch = torch
        self.device, properties = describe_device(device_index)
        self.blocks_per_sm, self.launches = blocks_per_sm, launches
        self.loops = loops | 1  # an xor over an even number of passes would be zero
        self.built = build_for_device("micro", [SOURCE], device_index)
        self.library = MicroLibrary(self.built)
        self.sizes = self.library.sizes
        self.ksteps = self.loops * self.library.stages * self.sizes.k_steps
        self.shared_bytes = shared_bytes_for_residency(properties, blocks_per_sm, self.library.ring_bytes)
        self.blocks = blocks_per_sm * self.device.sm_count
        warps, threads = self.blocks * self.sizes.warps, self.blocks * self.sizes.warps * 32
        self.spans = torch.empty((launches, warps, SPAN.itemsize), dtype=torch.uint8, device="cuda")
        self.sinks = torch.empty((launches, threads), dtype=torch.int32, device="cuda")
        self._expected: dict[str, Any] = {}
        self.mma_floor = mma_floor_cycles_per_kstep(
            self.device.compute_capability, self.sizes.m_fragments * self.sizes.n_fragments
        )

    def resources(self, arm: Arm) -> dict[str, Any]:
        found = arm.library.resources(arm.index, arm.work, self.shared_bytes)
        if found.resident_blocks != self.blocks_per_sm:
            raise UserError(
                f"{arm.name}: {found.resident_blocks} blocks fit an SM ({found.registers} registers a thread), "
                f"--blocks-per-sm {self.blocks_per_sm} was asked"
            )
        return {
            "registers": found.registers,
            "spill_bytes": found.local_bytes,
            "resident_blocks": found.resident_blocks,
        }

    def measure(self, arm: Arm) -> Cell:
        """``launches`` launches of one arm as one cell; every launch is checked before its figure counts."""
        self.sinks.fill_(-1)
        for launch in range(self.launches):
            arm.library.launch(
                arm.index,
                arm.work,
                blocks=self.blocks,
                shared_bytes=self.shared_bytes,
                loops=self.loops,
                tiles=arm.tiles,
                spans=self.spans[launch],
                sinks=self.sinks[launch],
            )
        self.torch.cuda.synchronize()
        raw = self.spans.cpu().numpy().reshape(self.launches, -1).view(SPAN)
        self._check_sinks(arm)
        cycles = ns = per_kstep = 0.0
        loads = arm.work is not Work.MMA
        for row in raw:
            spans = sm_spans(row)
            check_residency(spans, self.device.sm_count, self.blocks_per_sm, self.sizes.warps, arm.name)
            check_limits(
                spans,
                self.ksteps,
                self.sizes.bytes_per_kstep if loads else 0,
                None if arm.work is Work.LOAD else self.mma_floor,
                arm.name,
            )
            cycles += float(spans.cycles.mean())
            ns += float(spans.ns.mean())
            per_kstep += float(spans.cycles_per_kstep(self.ksteps).mean()) / self.launches
        return Cell(
            time_ns=ns,
            sm_cycles=cycles,
            launches=self.launches,
            clock_mhz=cycles / ns * 1e3,
            values={"cycles_per_kstep": per_kstep},
        )

    def _check_sinks(self, arm: Arm) -> None:
        if arm.expected_sink is None:
            return
        on_device = self._expected_on_device(arm)
        if not bool((self.sinks.view(-1, len(on_device)) != on_device).any()):
            return
        sinks = self.sinks.cpu().numpy().view(np.uint32).reshape(-1, len(arm.expected_sink))
        block, thread = (int(part) for part in np.argwhere(sinks != arm.expected_sink)[0])
        raise BenchError(
            f"{arm.name}: the timed loop read other data: sink of thread {thread}, block {block} is "
            f"{sinks[block, thread]:#010x}, expected {arm.expected_sink[thread]:#010x}"
        )

    def _expected_on_device(self, arm: Arm) -> Any:
        """The expected sink as a device tensor, copied once per arm: the comparison then costs no transfer."""
        if arm.name not in self._expected:
            assert arm.expected_sink is not None
            self._expected[arm.name] = self.torch.from_numpy(arm.expected_sink.view(np.int32)).to("cuda")
        return self._expected[arm.name]


def check_fragments(found: NDArray[np.uint32], expected: NDArray[np.uint32], what: str) -> None:
    """Raise BenchError with the first register that differs; both arrays [stages, k_steps, warps, 32, 24]."""
    wrong = np.argwhere(found != expected)
    if wrong.size:
        stage, kstep, warp, lane, reg = (int(part) for part in wrong[0])
        raise BenchError(
            f"{what}: wrong fragment: stage {stage}, k-step {kstep}, warp {warp}, lane {lane}, register {reg} holds "
            f"{found[tuple(wrong[0])]:#010x}, the mma fragment map gives {expected[tuple(wrong[0])]:#010x} "
            f"({len(wrong)} of {found.size} registers differ)"
        )


def expected_sinks(fragments: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Xor over an odd number of passes: of all registers of all stages and k-steps; uint32 [threads of a block]."""
    folded: NDArray[np.uint32] = np.bitwise_xor.reduce(np.bitwise_xor.reduce(fragments, axis=(0, 1)), axis=-1)
    return folded.reshape(-1)


def _on_device(bench: _Bench, tiles: Tiles, b_layout: BLayout) -> Any:
    return bench.torch.from_numpy(tiles.packed(b_layout).view(np.int16)).to("cuda")


def _selected(variants: list[str], swizzles: list[bool], works: list[Work]) -> list[tuple[str, bool, Work]]:
    return [(v, s, w) for s in swizzles for v in variants for w in works if w is not Work.MMA]


def micro_arms(
    *,
    variants: list[str],
    swizzles: list[bool],
    works: list[Work],
    blocks_per_sm: Literal[1, 2],
    loops: int,
    launches: int,
    device_index: int,
    reference: str,
    seed: int,
) -> ArmSet:
    """Build, verify and return the arms of one process. Raises UserError or BenchError with the arm's name."""
    bench = _Bench(device_index, blocks_per_sm, loops, launches)
    library, sizes = bench.library, bench.sizes
    tiles = random_tiles(library.stages, sizes, np.random.default_rng(seed))
    fragments = expected_fragments(tiles)
    packed = {b_layout: _on_device(bench, tiles, b_layout) for b_layout in BLayout}
    table = library.table()

    def arm(name: str, source: MicroLibrary, variant: str, swizzle: bool, work: Work) -> Arm:
        index = source.index(variant, swizzle)
        sink = expected_sinks(fragments) if work is Work.LOAD else None
        return Arm(name, source, index, work, packed[table[index].b_layout], sink)

    for variant, swizzle in {(v, s) for v, s, _ in _selected(variants, swizzles, works)}:
        index = library.index(variant, swizzle)
        found = library.gather(index, packed[table[index].b_layout])
        check_fragments(found, fragments, f"{variant} swizzle {'on' if swizzle else 'off'}")

    arms = [arm(arm_name(*key), library, *key) for key in _selected(variants, swizzles, works)]
    if Work.MMA in works:
        arms.append(arm(MMA_ARM, library, variants[0], swizzles[0], Work.MMA))
    twin_of = next(one for one in arms if one.name == reference)
    twin = MicroLibrary(load_copy(bench.built, "twin"))
    arms.append(Arm(f"{reference}.twin", twin, twin_of.index, twin_of.work, twin_of.tiles, twin_of.expected_sink))

    static = {one.name: bench.resources(one) | _static(one.name) for one in arms}
    arms = _expect_equal_products(bench, arms)
    return ArmSet(
        arms={one.name: functools.partial(bench.measure, one) for one in arms},
        static=static,
        device=bench.device,
        **header_facts(bench.built),
        workload={"kernel": "micro", "dtype": "bf16", "blocks_per_sm": blocks_per_sm, "ksteps_per_warp": bench.ksteps},
    )


def _expect_equal_products(bench: _Bench, arms: list[Arm]) -> list[Arm]:
    """Let every load+mma arm expect the first one's accumulators, bit for bit: same data, same order of mma."""
    expected = None
    checked = []
    for one in arms:
        if one.work is Work.LOAD_MMA:
            if expected is None:
                bench.measure(one)
                expected = bench.sinks[0, : bench.sizes.warps * 32].cpu().numpy().view(np.uint32)
            one = replace(one, expected_sink=expected)
        checked.append(one)
    return checked


def _static(name: str) -> dict[str, Any]:
    key = parse_arm(name.removesuffix(".twin"))
    if key is None:
        return {}
    variant, swizzle, work = key
    prediction = predict_load_only(variant, swizzle)
    facts: dict[str, Any] = {
        "load_instructions": prediction.instructions,
        "wavefronts": prediction.wavefronts,
        "bytes": prediction.bytes,
    }
    return facts | ({"predicted_cycles": prediction.cycles} if work is Work.LOAD else {})
