"""What the Python around the kernels does, on a GPU made of NumPy: what passes, and that every gate stops a run.

The kernels themselves are not here; what the stand-in reads is right unless it is told to be wrong.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu_stand_in import CYCLES_PER_NS, SMS, Gpu, stand_in_gpu

from micro.arm_names import Work
from stats.errors import BenchError, UserError

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")

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
    from micro.cells import CellTimer

    timer = CellTimer()
    assert timer.device.sm_count == SMS
    assert timer.device.uuid == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
    cell = timer.measure(lambda: timer.spin(10_000), launches=3)
    assert (cell.sm_cycles, cell.time_ns, cell.launches) == (30_000, 30_000 / CYCLES_PER_NS, 3)
    assert cell.clock_mhz == pytest.approx(1000 * CYCLES_PER_NS)


def test_with_a_flushed_l2_every_launch_is_a_bracket_of_its_own(gpu: Gpu) -> None:
    from micro.cells import CellTimer

    timer = CellTimer(l2_mode="flushed")
    cell = timer.measure(lambda: timer.spin(1_000), launches=4)
    assert (cell.sm_cycles, cell.launches) == (4_000, 4)
    assert cell.clock_mhz == pytest.approx(1000 * CYCLES_PER_NS)


def test_a_missing_sm_stops_the_cell(gpu: Gpu) -> None:
    from micro.cells import CellTimer

    timer = CellTimer()
    gpu.faults.lost_sm = True
    with pytest.raises(BenchError, match=rf"probe: {SMS - 1} of {SMS} SMs answered"):
        timer.measure(lambda: timer.spin(10), launches=1)


def test_a_late_host_is_told_that_its_function_waits(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    from micro import cells

    timer = cells.CellTimer()
    monkeypatch.setattr(cells, "_LONGEST_HOLD_NS", 0)
    with pytest.raises(BenchError, match="the function waits for the device"):
        timer.measure(lambda: timer.spin(10), launches=1)


def test_a_cuda_error_names_the_probe(gpu: Gpu) -> None:
    from micro.cells import CellTimer

    timer = CellTimer()
    gpu.faults.error = 700
    with pytest.raises(BenchError, match=r"^timing probe: CUDA says 'error 700'$"):
        timer.measure(lambda: None, launches=1)


def test_functions_become_arms_with_a_twin(gpu: Gpu) -> None:
    from micro.cells import function_arms

    made = function_arms(lambda: {"short": lambda: gpu.advance(100), "long": lambda: gpu.advance(200)}, launches=2)()
    assert list(made.arms) == ["short", "long", "short.twin"]
    cycles = {name: arm().sm_cycles for name, arm in made.arms.items()}
    assert cycles == {"short": 200, "long": 400, "short.twin": 200}
    assert made.workload == {"functions": ["long", "short"], "launches": 2}


# Devices


def test_an_old_gpu_is_refused(gpu: Gpu) -> None:
    from micro.device import describe_device

    gpu.major = 7
    with pytest.raises(UserError, match="Stand-in GPU is sm_70: the kernels need sm_80 or newer"):
        describe_device(0)


def test_shared_memory_for_a_residency_is_what_leaves_no_room_for_one_more(gpu: Gpu) -> None:
    from micro.device import shared_bytes_for_residency

    properties = gpu.properties(0)
    for blocks in (1, 2):
        granted = shared_bytes_for_residency(properties, blocks, 49152)
        assert properties.shared_memory_per_multiprocessor // (granted + 1024) == blocks
    with pytest.raises(UserError, match=r"--blocks-per-sm 8: each block needs 49152 bytes"):
        shared_bytes_for_residency(properties, 8, 49152)


def test_a_device_number_out_of_range_and_a_missing_torch(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    from micro.device import require_gpu

    require_gpu(0)
    with pytest.raises(UserError, match=r"--device 1: CUDA sees 1 device\(s\), numbered from 0"):
        require_gpu(1)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UserError, match=r"torch is not installed; pip install 'smem-bench\[gpu\]'"):
        require_gpu(0)


# The micro-benchmark


def test_every_arm_of_the_micro_benchmark_is_verified_and_measured(gpu: Gpu) -> None:
    from micro.arms import micro_arms

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
    from micro.arms import micro_arms

    setattr(gpu.faults, fault, value)
    with pytest.raises(error, match=says):
        run_all(micro_arms(**{**MICRO, "works": [Work.LOAD]}))


def test_products_that_differ_between_variants_stop_the_run(gpu: Gpu) -> None:
    from micro.arms import micro_arms

    made = micro_arms(**{**MICRO, "works": [Work.LOAD, Work.LOAD_MMA]})
    gpu.faults.wrong_sink = True
    with pytest.raises(BenchError, match=r"^A3:load\+mma: the timed loop read other data"):
        made.arms["A3:load+mma"]()


def test_what_ncu_counts_is_launched_once_each_and_described(gpu: Gpu, tmp_path: Path, capsys: Any) -> None:
    from micro.counter_target import main

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
    from micro.instructions import InstructionsConfig

    return InstructionsConfig(instructions=list(names), processes=1, blocks=2)


def test_every_instruction_is_measured_and_what_the_chip_lacks_is_skipped(gpu: Gpu) -> None:
    from micro.instruction_cells import make_arms
    from micro.patterns import INSTRUCTIONS

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
    from micro.instruction_cells import make_arms

    setattr(gpu.faults, fault, value)
    with pytest.raises(BenchError, match=says):
        run_all(make_arms(instructions_config(instruction)))


# The GEMM

SMALL = (128, 128, 64)


def gemm_arms(**changes: Any) -> Any:
    from gemm.arms import gemm_arms as make
    from gemm.variants import Kernel

    usual: dict[str, Any] = {
        "kernels": [Kernel("A1"), Kernel("A3"), Kernel("A3", dtype="fp16")],
        "shape": SMALL,
        "reference": "A3",
        "with_cublas": True,
        "equal_residency": "require",
        "launches": 2,
        "l2_mode": "hot",
        "device_index": 0,
        "seed": 3,
    }
    return make(**{**usual, **changes})


def test_the_arms_of_a_gemm_are_gated_described_and_measured(gpu: Gpu) -> None:
    made = gemm_arms()
    assert list(made.arms) == ["A1", "A3", "A3/fp16", "A3.twin", "cublas", "cublas/fp16"]
    cell = made.arms["A1"]()
    assert (cell.launches, cell.sm_cycles) == (2, 2 * (128 * 128 * 64 // 1024))
    assert made.arms["cublas"]().launches == 2
    assert made.static["A1"] == {
        "registers": 128,
        "spill_bytes": 0,
        "shared_bytes": 49152,
        "resident_blocks": 2,
        "b_transposed": False,
    }
    assert made.workload == {"kernel": "gemm", "m": 128, "n": 128, "k": 64, "dtype": "bf16+fp16"}


def test_a_kernel_with_another_residency_stops_a_controlled_comparison(gpu: Gpu) -> None:
    gpu.faults.departing = "A1"
    with pytest.raises(UserError, match=r"equal residency \(equal_residency: require\)"):
        gemm_arms()
    assert "A1" in gemm_arms(equal_residency="warn").arms


@pytest.mark.parametrize(
    ("fault", "value", "says"),
    [
        ("wrong_read", True, r"^correctness gate: A1 at 128x128x64: 1 of 16384 elements are off .* \(and \d more\)"),
        ("error", 700, r"^A1: resources: CUDA says 'error 700'"),
    ],
)
def test_the_gate_names_the_kernel_that_is_wrong(fault: str, value: Any, says: str, gpu: Gpu) -> None:
    setattr(gpu.faults, fault, value)
    with pytest.raises(BenchError, match=says):
        gemm_arms()


def test_a_fault_on_the_device_names_the_kernel(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    def fault(*_: Any) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be ...")

    monkeypatch.setattr(torch.cuda, "synchronize", fault)
    from gemm.check import gate
    from gemm.library import GemmLibrary, build_gemm
    from gemm.operands import make_operands
    from gemm.variants import Kernel

    library = GemmLibrary(build_gemm([Kernel("A2L")], [90]))
    with pytest.raises(BenchError, match=r"^A2L at 128x128x64: CUDA error: an illegal memory access was encountered$"):
        gate(library, [Kernel("A2L")], make_operands(*SMALL, "bf16", 1))


def test_a_launch_that_cuda_refuses_names_the_kernel(gpu: Gpu) -> None:
    from gemm.library import GemmLibrary, build_gemm
    from gemm.operands import make_operands
    from gemm.variants import Kernel

    library = GemmLibrary(build_gemm([Kernel("A3")], [90]))
    operands = make_operands(*SMALL, "bf16", 1)
    run = library.launcher(Kernel("A3"), operands.a, operands.b, operands.c)
    gpu.faults.error = 1
    with pytest.raises(BenchError, match=r"^A3: launch: CUDA says 'error 1'$"):
        run()
    gpu.faults.error = 209
    with pytest.raises(UserError, match=r"^A3: launch: the library holds code for sm_90"):
        run()


def test_too_little_memory_is_told_before_anything_is_allocated(gpu: Gpu) -> None:
    from gemm.operands import make_operands

    with pytest.raises(UserError, match=r"shape 1048576x1048576x32: needs .* GiB .* choose a smaller m"):
        make_operands(1 << 20, 1 << 20, 32, "bf16", 1)


def test_the_check_command_says_what_failed(gpu: Gpu, capsys: pytest.CaptureFixture[str]) -> None:
    from gemm.cli import check

    options: dict[str, Any] = {"variants": "A1,A3", "dtype": "bf16", "shape": ["128x128x32"], "device": 0}
    check(**options, seed=1, broken=None)
    assert ": 0 failures; largest error relative to cuBLAS's 1.0000" in capsys.readouterr().out
    gpu.faults.wrong_read = True
    with pytest.raises(BenchError, match=r"^\d+ of \d+ checks failed$"):
        check(**options, seed=None, broken="swapped-registers")
    assert "FAIL A1 at 128x128x32" in capsys.readouterr().out


def test_what_the_sanitizer_watches_runs_every_stage(gpu: Gpu, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    import gemm.sanitize

    monkeypatch.setattr("sys.argv", ["sanitize"])
    gemm.sanitize.main()
    assert capsys.readouterr().out == "40 launches\n"
    gpu.faults.error = 700
    with pytest.raises(BenchError, match=r"^A1/stages=1: resources: CUDA says"):
        gemm.sanitize.main()


def test_a_campaign_injects_exactly_what_it_says(gpu: Gpu) -> None:
    from gemm.campaigns import Campaign, campaign_arms

    same = campaign_arms(Campaign((0.0,), shape=SMALL), 0)
    assert [arm().sm_cycles for arm in same.arms.values()] == [4 * 1024, 4 * 1024]
    made = campaign_arms(Campaign((2.0,), shape=SMALL), 0)
    base, longer = made.arms["000"](), made.arms["000+2%"]()
    assert base.sm_cycles == 4 * 1024 + 2000
    assert longer.values["injected_cycles"] == round(0.02 * base.sm_cycles)
    assert longer.sm_cycles - base.sm_cycles == pytest.approx(longer.values["injected_cycles"], abs=1)


def test_what_ncu_counts_of_the_gemm(gpu: Gpu, tmp_path: Path, capsys: Any) -> None:
    from gemm.counter_target import main

    facts = tmp_path / "facts.json"
    assert main(["--variant", "A1,A3", "--swizzle", "both", "--shape", "128x256x32", "--facts", str(facts)]) == 0
    found = json.loads(facts.read_text())
    assert [launch["arm"] for launch in found["launches"]] == ["A1", "A1/noswz", "A3", "A3/noswz"]
    assert {launch["blocks"] for launch in found["launches"]} == {2}
    gpu.faults.wrong_read = True
    assert main(["--shape", "128x128x32"]) == 1
    assert capsys.readouterr().err.startswith("counter target: correctness gate: A1 at 128x128x32")


def test_the_stream_arms_give_their_figures(gpu: Gpu) -> None:
    from gemm.explain.stream import STREAM_ARMS, StreamConfig, stream_arms

    made = stream_arms(StreamConfig(shape="256x256x64", launches=2), 0)
    assert list(made.arms) == [*STREAM_ARMS, "tiles_natural.twin"]
    cells = {name: arm() for name, arm in made.arms.items()}
    assert cells["barrier"].values == {"barrier_cycles": 30}
    assert cells["cp_async_latency"].values == {"cp_async_latency_cycles": 600}
    tiles = 2 * 2 * 2
    assert cells["tiles_natural"].values["bytes_per_clk_per_sm"] == pytest.approx(tiles * 16384 / SMS / 1e6)
    assert made.static["tiles_natural"] == {
        "launch_49152_bytes_without_opt_in": True,
        "launch_49152_bytes_with_opt_in": True,
        "launch_65536_bytes_without_opt_in": False,
        "launch_65536_bytes_with_opt_in": True,
    }


@pytest.mark.parametrize(
    ("fault", "value", "says"),
    [("resident_blocks", 4, "4 blocks fit an SM, intended 2"), ("error", 700, "CUDA says 'error 700'")],
)
def test_a_stream_that_is_not_as_intended_stops(fault: str, value: int, says: str, gpu: Gpu) -> None:
    from gemm.explain.stream import StreamConfig, stream_arms

    setattr(gpu.faults, fault, value)
    with pytest.raises(BenchError, match=f"^tiles_natural: {says}"):
        stream_arms(StreamConfig(shape="256x256x64", launches=2), 0)


# Whole runs: the factory installs the stand-in in its fresh process


def on_stand_in(module: str, name: str, *arguments: Any, **options: Any) -> Any:
    """A factory that runs another one on the stand-in GPU of its own process, which lives as long as that process."""
    stand_in = stand_in_gpu()
    stand_in.__enter__()
    _kept.append(stand_in)
    return getattr(importlib.import_module(module), name)(*arguments, **options)


_kept: list[Any] = []


def stand_in_for(monkeypatch: pytest.MonkeyPatch, module: str, name: str) -> None:
    monkeypatch.setattr(f"{module}.{name}", functools.partial(on_stand_in, module, name))


def test_micro_bench_from_command_to_table_and_record(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from micro import cli
    from stats.records import read_record

    stand_in_for(monkeypatch, "micro.arms", "micro_arms")
    monkeypatch.setattr("micro.device.cuda_device_count", lambda: 1)
    out = tmp_path / "run.jsonl"
    arguments = ["--variants", "A1,A3", "--processes", "1", "--launches", "1", "--out", str(out), "--format", "json"]
    monkeypatch.setattr("sys.argv", ["micro-bench", *arguments])
    (tmp_path / "small.yaml").write_text("blocks: 2\nwarmup_blocks: 0\nloops: 3\nswizzle: 'on'\n")
    monkeypatch.setattr("sys.argv", ["micro-bench", "--config", str(tmp_path / "small.yaml"), *arguments])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    told = capsys.readouterr()
    assert stop.value.code == 0, told.err
    found = json.loads(told.out)
    assert found["measured"] is True
    assert any("clocks: monitor" in line for line in found["heading"])  # the label of the clocks is in every output
    record = read_record(out)
    assert record.header.device is not None
    assert record.header.device.name == "Stand-in GPU"
    assert {cell.arm for cell in record.cells} >= {"A1:load", "A3:load", "A3:load.twin"}


def test_gemm_bench_from_command_to_table_and_record(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from gemm import cli
    from stats.records import read_record

    stand_in_for(monkeypatch, "gemm.arms", "gemm_arms")
    monkeypatch.setattr("micro.device.cuda_device_count", lambda: 1)
    out = tmp_path / "run.jsonl"
    (tmp_path / "small.yaml").write_text(
        "variants: [A1, A3]\nshapes: [128x128x32]\nprocesses: 2\nblocks: 2\nwarmup_blocks: 0\nlaunches: 1\n"
    )
    for fmt in ("table", "md", "json"):
        arguments = ["--config", str(tmp_path / "small.yaml"), "--out", str(out), "--resume", "--format", fmt]
        monkeypatch.setattr("sys.argv", ["gemm-bench", *arguments])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        told = capsys.readouterr()
        assert stop.value.code == 0, told.err
        assert "monitor" in told.out  # the label of the clocks is in every output
    assert json.loads(told.out)["comparisons"]
    assert len(read_record(out).cells) == 2 * 2 * 4  # resumed, not run again


def test_a_launch_keeps_its_matrices_alive(gpu: Gpu) -> None:
    import gc
    import weakref

    from gemm.library import GemmLibrary, build_gemm
    from gemm.operands import make_operands
    from gemm.variants import Kernel

    operands = make_operands(*SMALL, "bf16", 1)
    seen = [weakref.ref(matrix) for matrix in (operands.a, operands.b_t, operands.c)]
    library = GemmLibrary(build_gemm([Kernel("A2")], [90]))
    run = library.launcher(Kernel("A2"), operands.a, operands.b_t, operands.c)
    del operands
    gc.collect()
    assert all(matrix() is not None for matrix in seen)
    run()
    del run
    gc.collect()
    assert not any(matrix() is not None for matrix in seen)
