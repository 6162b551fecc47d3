"""On a GPU: contents verified, every gate able to stop a run, and two torch functions compared in a few lines."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from micro.bench.read_path import arms as micro_arms_module
from micro.bench.read_path.arms import check_fragments, micro_arms
from micro.bench.read_path.library import SOURCE, MicroLibrary, expected_fragments, random_tiles
from micro.gpu.cells import CellTimer, build_for_device, function_arms
from micro.model.arm_names import MMA_ARM, Work
from micro.model.layout import layout
from micro.model.variants import VARIANTS, BLayout
from stats.base.errors import BenchError
from stats.run.spec import TrialSpec
from stats.run.trials import run_trials

pytestmark = pytest.mark.gpu

OPTIONS: dict[str, Any] = {
    "variants": list(VARIANTS),
    "swizzles": [True, False],
    "works": list(Work),
    "blocks_per_sm": 2,
    "loops": 11,
    "launches": 2,
    "device_index": 0,
    "reference": "A3:load",
    "seed": 5,
}


def test_every_arm_runs_verified_and_no_cell_beats_a_limit() -> None:
    found = micro_arms(**OPTIONS)
    assert len(found.arms) == 4 * 2 * 2 + 2
    for name, arm in found.arms.items():
        cell = arm()
        floor = found.static[name].get("predicted_cycles", 0)
        assert cell.values["cycles_per_kstep"] >= floor / 1.01, name
        assert found.static[name]["spill_bytes"] == 0, name


def test_reading_another_layout_is_a_wrong_fragment() -> None:
    import torch

    library = MicroLibrary(build_for_device("micro", [SOURCE], 0))
    tiles = random_tiles(library.stages, layout().constants, np.random.default_rng())
    expected = expected_fragments(tiles)
    for row_number, row in enumerate(library.table()):
        right = torch.from_numpy(tiles.packed(row.b_layout).view(np.int16)).to("cuda")
        other = BLayout.TRANSPOSED if row.b_layout is BLayout.NATURAL else BLayout.NATURAL
        wrong = torch.from_numpy(tiles.packed(other).view(np.int16)).to("cuda")
        check_fragments(library.gather(row_number, right), expected, row.name)
        with pytest.raises(BenchError, match=f"{row.name}: wrong fragment"):
            check_fragments(library.gather(row_number, wrong), expected, row.name)


def test_a_rate_above_the_limit_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    found = micro_arms(**OPTIONS)
    monkeypatch.setattr("micro.gpu.spans.SHARED_BYTES_PER_CLK", 100)  # as if the chip could do no more
    with pytest.raises(BenchError, match=r"A3:load: 12\d\.\d\d B/clk/SM is above the limit of 100 B/clk/SM"):
        found.arms["A3:load"]()


def test_multiplying_above_the_floor_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(micro_arms_module, "mma_floor_cycles_per_kstep", lambda *_: 1000.0)
    with pytest.raises(BenchError, match="below the tensor cores' floor of 1000"):
        micro_arms(**OPTIONS).arms[MMA_ARM]()


def test_a_wrong_residency_stops_the_run() -> None:
    found = micro_arms(**OPTIONS)
    bench = found.arms["A3:load"].func.__self__
    bench.blocks -= 1
    bench.spans = bench.spans[:, :-8].contiguous()
    bench.sinks = bench.sinks[:, :-256].contiguous()
    with pytest.raises(BenchError, match=r"A3:load: wrong residency: .* intended 2"):
        found.arms["A3:load"]()


def test_a_wrong_sink_stops_the_run() -> None:
    found = micro_arms(**OPTIONS)
    found.arms["A2:load"].args[0].expected_sink[77] ^= 1
    with pytest.raises(BenchError, match=r"A2:load: the timed loop read other data: sink of thread 77"):
        found.arms["A2:load"]()


def test_the_probe_counts_a_known_number_of_cycles() -> None:
    timer = CellTimer(0)
    timer.measure(lambda: timer.spin(1000), 1)  # the first launch of a kernel loads its code
    cells = [timer.measure(lambda cycles=cycles: timer.spin(cycles), 1) for cycles in (1_000_000, 1_500_000)]
    assert cells[1].sm_cycles - cells[0].sm_cycles == pytest.approx(500_000, rel=0.01)
    assert 200 < cells[0].clock_mhz < 3000


def two_products() -> Mapping[str, Callable[[], object]]:
    import torch

    a = torch.randn(1024, 1024, device="cuda", dtype=torch.bfloat16)
    return {"matmul": lambda: a @ a, "matmul+add": lambda: a @ a + a}


def test_two_torch_functions_are_compared_in_a_few_lines(tmp_path: Path) -> None:
    spec = TrialSpec(
        tool="test",
        reference="matmul",
        twin="matmul.twin",
        comparisons=[("matmul+add", "matmul")],
        processes=2,
        blocks=4,
    )
    record = run_trials(spec, function_arms(two_products), out=tmp_path / "two.jsonl")
    assert len(record.cells) == 2 * 4 * 3
    means = {
        arm: np.mean([cell.sm_cycles for cell in record.cells if cell.arm == arm]) for arm in ("matmul", "matmul+add")
    }
    assert means["matmul+add"] > means["matmul"]


def test_the_command_measures_and_records(tmp_path: Path) -> None:
    out = tmp_path / "run.jsonl"
    # The other tests of this process hold the same GPU, which the default rule would not accept.
    config = tmp_path / "beside-other-tests.yaml"
    config.write_text("processes: 1\nblocks: 20\nexclusion: {other_processes: false}\n")
    command = [sys.executable, "-m", "micro", "--config", str(config), "--format", "json", "--out", str(out)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert found["measured"] is True
    assert len(found["rows"]) == 8
    assert all(row["bytes_per_clk"] <= 128 * 1.01 for row in found["rows"])
    assert out.exists()
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode == 2
    assert "exists already" in again.stderr


def test_a_function_that_waits_for_the_device_is_refused() -> None:
    import torch

    timer = CellTimer(0)
    with pytest.raises(BenchError, match="the function waits for the device"):
        timer.measure(torch.cuda.synchronize, 1)
