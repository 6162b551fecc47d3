"""Timing, devices and the micro-benchmark on the GPU made of NumPy: what passes, and that every gate stops a run.

The kernels themselves are not here; what the stand-in reads is right unless it is told to be wrong.
"""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from micro.model.arm_names import Work
from stats.base.errors import BenchError, UserError
from tests.stand_in.gpu import CYCLES_PER_NS, SMS, Gpu, stand_in_gpu

pytestmark = pytest.mark.torch

MICRO: dict[str, Any] = {
    "variants": ["A1", "A3"],
    "swizzles": [True, False],
    "works": list(Work),
    "blocks_per_sm": 2,
    "loops": 2,
    "launches": 2,
    "device_index": 0,
    "reference": "A3:load",
    "seed": 5,
}


@pytest.fixture
def gpu() -> Iterator[Gpu]:
    with stand_in_gpu() as found:
        yield found


def run_all(made: Any) -> None:
    for arm in made.arms.values():
        arm()


# Time


def test_a_spin_of_known_length_takes_exactly_that(gpu: Gpu) -> None:
    from micro.gpu.cells import CellTimer

    timer = CellTimer()
    assert timer.device.sm_count == SMS
    assert timer.device.uuid == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
    cell = timer.measure(lambda: timer.spin(10_000), launches=3)
    assert (cell.sm_cycles, cell.time_ns, cell.launches) == (30_000, 30_000 / CYCLES_PER_NS, 3)
    assert cell.clock_mhz == pytest.approx(1000 * CYCLES_PER_NS)


def test_with_a_flushed_l2_every_launch_is_a_bracket_of_its_own(gpu: Gpu) -> None:
    from micro.gpu.cells import CellTimer

    timer = CellTimer(l2_mode="flushed")
    cell = timer.measure(lambda: timer.spin(1_000), launches=4)
    assert (cell.sm_cycles, cell.launches) == (4_000, 4)
    assert cell.clock_mhz == pytest.approx(1000 * CYCLES_PER_NS)


def test_a_missing_sm_stops_the_cell(gpu: Gpu) -> None:
    from micro.gpu.cells import CellTimer

    timer = CellTimer()
    gpu.faults.lost_sm = True
    with pytest.raises(BenchError, match=rf"probe: {SMS - 1} of {SMS} SMs answered"):
        timer.measure(lambda: timer.spin(10), launches=1)


def test_a_late_host_is_told_that_its_function_waits(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    from micro.gpu import cells

    timer = cells.CellTimer()
    monkeypatch.setattr(cells, "_LONGEST_HOLD_NS", 0)
    with pytest.raises(BenchError, match="the function waits for the device"):
        timer.measure(lambda: timer.spin(10), launches=1)


def test_a_cuda_error_names_the_probe(gpu: Gpu) -> None:
    from micro.gpu.cells import CellTimer

    timer = CellTimer()
    gpu.faults.error = 700
    with pytest.raises(BenchError, match=r"^timing probe: CUDA says 'error 700'$"):
        timer.measure(lambda: None, launches=1)


def test_functions_become_arms_with_a_twin(gpu: Gpu) -> None:
    from micro.gpu.cells import function_arms

    made = function_arms(lambda: {"short": lambda: gpu.advance(100), "long": lambda: gpu.advance(200)}, launches=2)()
    assert list(made.arms) == ["short", "long", "short.twin"]
    cycles = {name: arm().sm_cycles for name, arm in made.arms.items()}
    assert cycles == {"short": 200, "long": 400, "short.twin": 200}
    assert made.workload == {"functions": ["long", "short"], "launches": 2}


# Devices


def test_an_old_gpu_is_refused(gpu: Gpu) -> None:
    from micro.gpu.device import describe_device

    gpu.major = 7
    with pytest.raises(UserError, match="Stand-in GPU is sm_70: the kernels need sm_80 or newer"):
        describe_device(0)


def test_shared_memory_for_a_residency_is_what_leaves_no_room_for_one_more(gpu: Gpu) -> None:
    from micro.gpu.device import shared_bytes_for_residency

    properties = gpu.properties(0)
    for blocks in (1, 2):
        granted = shared_bytes_for_residency(properties, blocks, 49152)
        assert properties.shared_memory_per_multiprocessor // (granted + 1024) == blocks
    with pytest.raises(UserError, match=r"--blocks-per-sm 8: each block needs 49152 bytes"):
        shared_bytes_for_residency(properties, 8, 49152)


def test_a_device_number_out_of_range_and_a_missing_torch(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    from micro.gpu.device import require_gpu

    require_gpu(0)
    with pytest.raises(UserError, match=r"--device 1: CUDA sees 1 device\(s\), numbered from 0"):
        require_gpu(1)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UserError, match=r"torch is not installed; pip install 'smem-bench\[gpu\]'"):
        require_gpu(0)


# The micro-benchmark


def test_every_arm_of_the_micro_benchmark_is_verified_and_measured(gpu: Gpu) -> None:
    from micro.bench.read_path.arms import micro_arms

    made = micro_arms(**MICRO)
    assert len(made.arms) == 2 * 2 * 2 + 2  # variants, swizzles, works; mma alone; twin
    for name, arm in made.arms.items():
        cell = arm()
        cost = 34 if name.startswith("mma") else 70 if "mma" in name else 40
        assert cell.values["cycles_per_kstep"] == pytest.approx(cost), name
        assert made.static[name]["resident_blocks"] == 2
    assert made.static["A1:load"]["load_instructions"] == 32
    assert made.static["A3:load"]["predicted_cycles"] == 24
    assert made.workload["ksteps_per_warp"] == 3 * 3 * 2  # an even number of passes becomes odd


@pytest.mark.parametrize(
    ("fault", "value", "error", "says"),
    [
        ("wrong_read", True, BenchError, r"wrong fragment: stage 0, k-step 1, warp 2, lane 3, register 4"),
        ("wrong_sink", True, BenchError, r"^A1:load: the timed loop read other data: sink of thread 7, block 0"),
        ("too_fast", True, BenchError, r"^A1:load: .*above"),
        ("resident_blocks", 1, UserError, r"^A1:load: 1 blocks fit an SM .*, --blocks-per-sm 2 was asked"),
        ("error", 700, BenchError, r"^gathering fragments: CUDA says 'error 700'"),
    ],
)
def test_each_gate_of_the_micro_benchmark_bites(
    fault: str, value: Any, error: type[Exception], says: str, gpu: Gpu
) -> None:
    from micro.bench.read_path.arms import micro_arms

    setattr(gpu.faults, fault, value)
    with pytest.raises(error, match=says):
        run_all(micro_arms(**{**MICRO, "works": [Work.LOAD]}))


def test_products_that_differ_between_variants_stop_the_run(gpu: Gpu) -> None:
    from micro.bench.read_path.arms import micro_arms

    made = micro_arms(**{**MICRO, "works": [Work.LOAD, Work.LOAD_MMA]})
    gpu.faults.wrong_sink = True
    with pytest.raises(BenchError, match=r"^A3:load\+mma: the timed loop read other data"):
        made.arms["A3:load+mma"]()


def test_what_ncu_counts_is_launched_once_each_and_described(gpu: Gpu, tmp_path: Path, capsys: Any) -> None:
    from micro.counters.target import main

    facts = tmp_path / "facts.json"
    arguments = ["--variant", "A1,A3", "--swizzle", "on", "--work", "load,mma", "--loops", "3"]
    assert main([*arguments, "--facts", str(facts)]) == 0
    found = json.loads(facts.read_text())
    assert [launch["arm"] for launch in found["launches"]] == ["A1:load", "mma", "A3:load", "mma"]
    assert {launch["blocks"] for launch in found["launches"]} == {2 * SMS}
    assert found["device"]["name"] == "Stand-in GPU"
    gpu.faults.wrong_sink = True
    assert main(arguments) == 1
    gpu.faults.resident_blocks = 1
    assert main(arguments) == 2
    assert main(["--work", "none"]) == 2
    told = capsys.readouterr().err.splitlines()
    assert told == [
        "counter target: A1:load: the counted launch read other data than the tile holds",
        "counter target: A1:load: 1 blocks fit an SM, 2 were asked",
        "counter target: --work 'none': choose from load, load+mma, mma",
    ]


# Instructions


def instructions_config(*names: str) -> Any:
    from micro.bench.instructions.design import InstructionsConfig

    return InstructionsConfig(instructions=list(names), processes=1, blocks=2)


def test_every_instruction_is_measured_and_what_the_chip_lacks_is_skipped(gpu: Gpu) -> None:
    from micro.bench.instructions.cells import make_arms
    from micro.model.patterns import INSTRUCTIONS

    gpu.major = 8
    newer = {name for name, row in INSTRUCTIONS.items() if row.minimum_arch > 80}
    made = make_arms(instructions_config(*INSTRUCTIONS))
    assert {name.split(":")[0].split("/")[0] for name in made.skipped} <= newer or made.skipped
    assert all("needs sm_90; this is sm_80" in why for why in made.skipped.values())
    for name in list(made.arms)[:: max(1, len(made.arms) // 25)]:
        cell = made.arms[name]()
        assert cell.values["cycles_per_instruction"] == pytest.approx(9), name
        assert math.isfinite(cell.clock_mhz)
    assert [name for name in made.arms if name.endswith(".twin")]


@pytest.mark.parametrize(
    ("fault", "value", "says"),
    [
        ("wrong_sink", True, "ended on a wrong address or value|is not .* times the product"),
        ("too_fast", True, r"above|below"),
        ("resident_blocks", 2, "2 blocks fit an SM and 0 bytes spill"),
        ("spill_bytes", 8, "8 bytes spill"),
        ("error", 700, "CUDA says error 700"),
    ],
)
@pytest.mark.parametrize("instruction", ["ldmatrix.x4", "mma.bf16"])
def test_each_gate_of_the_instructions_bites(instruction: str, fault: str, value: Any, says: str, gpu: Gpu) -> None:
    from micro.bench.instructions.cells import make_arms

    setattr(gpu.faults, fault, value)
    with pytest.raises(BenchError, match=says):
        run_all(make_arms(instructions_config(instruction)))


# Contention


def contention_config() -> Any:
    from micro.bench.contention.design import ContentionConfig

    return ContentionConfig(processes=1, blocks=2, target_cycles=20_000)


def test_every_arm_of_contention_is_checked_and_measured(gpu: Gpu) -> None:
    from micro.bench.contention.cells import make_arms
    from micro.bench.contention.design import ARMS

    made = make_arms(contention_config())
    assert list(made.arms) == [*(arm.name for arm in ARMS), "mma.twin"]
    assert made.skipped == {}
    for name, arm in made.arms.items():
        cell = arm()
        assert cell.values["cycles_per_pass"] == pytest.approx(49), name
        assert cell.clock_mhz == pytest.approx(1000 * CYCLES_PER_NS)
    copies = [f"ld.shared.b32/n24+cp.async/c{number}+mma" for number in (1, 2)]
    assert [made.static[name]["base"] for name in copies] == ["ld.shared.b32/n24+mma", copies[0]]


def test_a_ring_that_does_not_fit_is_skipped_with_its_size(gpu: Gpu) -> None:
    from micro.bench.contention.cells import make_arms
    from micro.bench.contention.design import ARMS

    gpu.faults.ring_bytes = 100_000
    made = make_arms(contention_config())
    assert made.skipped == {"cp.async/c4+mma": "needs 247456 bytes of shared memory; this chip gives a block 232448"}
    assert len(made.arms) == len(ARMS)  # one less, and the twin


@pytest.mark.parametrize(
    ("fault", "value", "says"),
    [
        ("wrong_sink", True, "^mma: the sum of the accumulators is not what the mma of every pass add up to"),
        ("wrong_read", True, r"^mma: what cp\.async brought is not what its source holds: block 1, warp 3, lane 5"),
        ("too_fast", True, "^mma: .* is below the tensor cores' floor of 16.00"),
        ("resident_blocks", 2, "^mma: 2 blocks fit an SM and 0 bytes spill"),
        ("spill_bytes", 8, "^mma: 1 blocks fit an SM and 8 bytes spill"),
        ("error", 700, "^mma: CUDA says 'error 700'"),
    ],
)
def test_each_gate_of_contention_bites(fault: str, value: Any, says: str, gpu: Gpu) -> None:
    from micro.bench.contention.cells import make_arms

    setattr(gpu.faults, fault, value)
    with pytest.raises(BenchError, match=says):
        run_all(make_arms(contention_config()))


def test_contention_above_the_port_stops_the_run(gpu: Gpu) -> None:
    from micro.bench.contention.cells import make_arms

    made = make_arms(contention_config())
    gpu.faults.too_fast = True
    with pytest.raises(BenchError, match=r"^ldmatrix.x4/n12: .* is above the limit of 128 B/clk/SM"):
        made.arms["ldmatrix.x4/n12"]()


def test_a_library_of_contention_for_another_gpu_is_told_from_a_defect(gpu: Gpu) -> None:
    from micro.bench.contention.cells import make_arms

    gpu.faults.error = 209
    with pytest.raises(UserError, match=r"^mma: the library holds code for sm_90"):
        run_all(make_arms(contention_config()))
