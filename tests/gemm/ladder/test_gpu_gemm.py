"""The GEMM, its campaigns and the stream on the GPU made of NumPy: gates, figures, messages; it proves no kernel."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from micro.gpu.build import NVCC_FLAGS
from micro.model.variants import VARIANTS
from stats.base.errors import BenchError, UserError
from stats.record.provenance import todays_hash
from tests.stand_in.gpu import SMS, Gpu, stand_in_gpu

pytestmark = pytest.mark.torch


@pytest.fixture
def gpu() -> Iterator[Gpu]:
    with stand_in_gpu() as found:
        yield found


def run_all(made: Any) -> None:
    for arm in made.arms.values():
        arm()


# The GEMM

SMALL = (128, 128, 64)


def gemm_arms(**changes: Any) -> Any:
    from gemm.kernel.variants import Kernel
    from gemm.ladder.arms import gemm_arms as make

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
    from gemm.kernel.library import GemmLibrary, build_gemm
    from gemm.kernel.operands import make_operands
    from gemm.kernel.variants import Kernel
    from gemm.ladder.check import gate

    library = GemmLibrary(build_gemm([Kernel("A2L")], [90]))
    with pytest.raises(BenchError, match=r"^A2L at 128x128x64: CUDA error: an illegal memory access was encountered$"):
        gate(library, [Kernel("A2L")], make_operands(*SMALL, "bf16", 1))


def test_a_launch_that_cuda_refuses_names_the_kernel(gpu: Gpu) -> None:
    from gemm.kernel.library import GemmLibrary, build_gemm
    from gemm.kernel.operands import make_operands
    from gemm.kernel.variants import Kernel

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
    from gemm.kernel.operands import make_operands

    with pytest.raises(UserError, match=r"shape 1048576x1048576x32: needs .* GiB .* choose a smaller m"):
        make_operands(1 << 20, 1 << 20, 32, "bf16", 1)


def test_the_check_command_says_what_failed(gpu: Gpu, capsys: pytest.CaptureFixture[str]) -> None:
    from gemm.cli.app import check

    options: dict[str, Any] = {"variants": "A1,A3", "dtype": "bf16", "shape": ["128x128x32"], "device": 0}
    check(**options, seed=1, broken=None)
    assert ": 0 failures; largest error relative to cuBLAS's 1.0000" in " ".join(capsys.readouterr().out.split())
    gpu.faults.wrong_read = True
    with pytest.raises(BenchError, match=r"^\d+ of \d+ checks failed$"):
        check(**options, seed=None, broken="swapped-registers")
    assert "FAIL A1 at 128x128x32" in " ".join(capsys.readouterr().out.split())


def test_what_the_sanitizer_watches_runs_every_stage(gpu: Gpu, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    import gemm.kernel.sanitize

    monkeypatch.setattr("sys.argv", ["sanitize"])
    gemm.kernel.sanitize.main()
    assert capsys.readouterr().out == f"{10 * len(VARIANTS)} launches\n"
    gpu.faults.error = 700
    with pytest.raises(BenchError, match=r"^A1/stages=1: resources: CUDA says"):
        gemm.kernel.sanitize.main()


def test_a_campaign_injects_exactly_what_it_says(gpu: Gpu) -> None:
    from gemm.truth.campaigns import Campaign, campaign_arms

    same = campaign_arms(Campaign((0.0,), shape=SMALL), 0)
    assert [arm().sm_cycles for arm in same.arms.values()] == [4 * 1024, 4 * 1024]
    made = campaign_arms(Campaign((2.0,), shape=SMALL), 0)
    base, longer = made.arms["000"](), made.arms["000+2%"]()
    assert base.sm_cycles == 4 * 1024 + 2000
    assert longer.values["injected_cycles"] == round(0.02 * base.sm_cycles)
    assert longer.sm_cycles - base.sm_cycles == pytest.approx(longer.values["injected_cycles"], abs=1)


def test_what_ncu_counts_of_the_gemm(gpu: Gpu, tmp_path: Path, capsys: Any) -> None:
    from gemm.counters.target import main

    facts = tmp_path / "facts.json"
    assert main(["--variant", "A1,A3", "--swizzle", "both", "--shape", "128x256x32", "--facts", str(facts)]) == 0
    found = json.loads(facts.read_text())
    assert [launch["arm"] for launch in found["launches"]] == ["A1", "A1/noswz", "A3", "A3/noswz"]
    assert {launch["blocks"] for launch in found["launches"]} == {2}
    assert todays_hash(found["sources"], NVCC_FLAGS) == found["source_hash"]
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


def test_a_stream_library_with_another_table_is_refused(gpu: Gpu) -> None:
    """Arms are launched by their place in STREAM_ARMS: a kernel more or less in C would measure under a wrong name."""
    from gemm.explain.stream import STREAM_ARMS, StreamConfig, stream_arms

    named = len(STREAM_ARMS)
    gpu.faults.lost_stream_kernels = 3
    with pytest.raises(BenchError, match=f"^stream: the library holds {named - 3} kernels, STREAM_ARMS names {named}$"):
        stream_arms(StreamConfig(shape="256x256x64", launches=2), 0)


def test_a_launch_keeps_its_matrices_alive(gpu: Gpu) -> None:
    import gc
    import weakref

    from gemm.kernel.library import GemmLibrary, build_gemm
    from gemm.kernel.operands import make_operands
    from gemm.kernel.variants import Kernel

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
