"""On a GPU: contention is measured within the hardware's limits, its contents verified, and every gate stops a run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from micro.bench.contention import cells as contention_cells
from micro.bench.contention.cells import make_arms
from micro.bench.contention.design import ARMS, REFERENCE, ContentionConfig
from micro.bench.contention.sinks import Inputs
from stats.base.errors import BenchError

pytestmark = pytest.mark.gpu

SMALL = ContentionConfig(processes=1, blocks=2, warmup_blocks=0, target_cycles=50_000)
COPYING = "ld.shared.b32/n24+cp.async/c2+mma"


def test_every_arm_runs_verified_and_within_the_hardware() -> None:
    made = make_arms(SMALL)
    assert {*made.arms, *made.skipped} == {*(arm.name for arm in ARMS), f"{REFERENCE}.twin"}
    for name, run in made.arms.items():
        static, cycles = made.static[name], run().values["cycles_per_pass"]
        assert cycles >= static["port_cycles"] / 1.01, name
    both = made.arms[COPYING]().values["cycles_per_pass"]
    assert both > made.arms["mma"]().values["cycles_per_pass"]


def test_the_command_measures_and_records(tmp_path: Path) -> None:
    out, config = tmp_path / "run.jsonl", tmp_path / "beside-other-tests.yaml"
    # The other tests of this process hold the same GPU, which the default rule would not accept.
    config.write_text(
        "processes: 1\nblocks: 4\ntarget_cycles: 50000\n"
        "exclusion: {other_processes: false, limit_percent: 100, clock_tolerance_percent: 100}\n"
    )
    command = [sys.executable, "-m", "micro", "contention", "--config", str(config), "--format", "json"]
    answer = subprocess.run([*command, "--out", str(out)], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert found["measured"] is True
    assert {row["arm"] for row in found["rows"]} >= {"mma", COPYING, "prmt/n48"}
    assert {"ld.shared.b32", "cp.async"} <= set(found["costs_beside_mma"])
    again = subprocess.run([*command, "--record", str(out)], capture_output=True, text=True, check=False)
    assert json.loads(again.stdout) == found


def test_a_wrong_residency_stops_the_run() -> None:
    run = make_arms(SMALL).arms["mma"]
    runner = run.func.__self__  # type: ignore[attr-defined]
    runner.blocks -= 1
    runner.spans = runner.spans[: runner.blocks * contention_cells.WARPS * contention_cells.SPAN.itemsize]
    runner.sinks = runner.sinks[:, :-1].contiguous()
    with pytest.raises(BenchError, match=r"mma: wrong residency: \d+ of \d+ SMs ran blocks"):
        run()


def test_a_rate_above_the_port_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_arms(SMALL).arms["ldmatrix.x4/n12"]
    monkeypatch.setattr("micro.gpu.spans.SHARED_BYTES_PER_CLK", 100)  # as if the chip could do no more
    with pytest.raises(BenchError, match=r"ldmatrix.x4/n12: 12\d\.\d\d B/clk/SM is above the limit of 100 B/clk/SM"):
        run()


def test_multiplying_above_the_floor_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_arms(SMALL).arms["mma"]
    monkeypatch.setattr(contention_cells, "mma_floor_cycles_per_kstep", lambda *_: 1000.0)
    with pytest.raises(BenchError, match="below the tensor cores' floor of 1000"):
        run()


@pytest.mark.parametrize(
    ("which", "says"),
    [(1, r"what cp\.async brought is not"), (0, "the sum of the accumulators is not")],
    ids=["source of the copies", "image"],
)
def test_other_data_than_the_inputs_stops_the_run(which: int, says: str) -> None:
    run = make_arms(SMALL).arms[COPYING]
    runner = run.func.__self__  # type: ignore[attr-defined]
    library = runner.library
    other = Inputs.random(library.image_bytes, library.region_bytes, seed=99)
    changed = runner.torch.from_numpy((other.image, other.source)[which].view("int32")).to("cuda")
    runner.on_device[which].copy_(changed)
    with pytest.raises(BenchError, match=says):
        run()
