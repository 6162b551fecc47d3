"""Every check of a cell can fail: wrong sink, wrong accumulator, too fast; on a GPU, a small run holds together."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

from micro.bench.instructions import cells as instruction_cells
from micro.bench.instructions.cells import check_mma_limit, check_sinks, first_mma_product
from micro.bench.instructions.design import Arm, InstructionsConfig, arms_of, loops_for, reference_arm
from micro.model.patterns import INSTRUCTIONS, Pattern, image, patterns_of
from stats.base.errors import BenchError

B32, F16 = INSTRUCTIONS["ld.shared.b32"], INSTRUCTIONS["mma.f16"]
LOAD_ARM = Arm(B32, patterns_of(B32)[0], 2, 1)


def test_loads_must_end_where_they_started() -> None:
    data = image(B32, LOAD_ARM.pattern, 1)
    sinks = np.zeros((2, 32), dtype=np.uint32)
    check_sinks(LOAD_ARM, sinks, data, 64)
    sinks[1, 5] = 4
    with pytest.raises(BenchError, match=r"ld\.shared\.b32/way1/w2\.i1: 1 lanes ended on a wrong address"):
        check_sinks(LOAD_ARM, sinks, data, 64)
    sinks[:] = 0xFFFFFFFF
    with pytest.raises(BenchError, match="did not run"):
        check_sinks(LOAD_ARM, sinks, data, 64)


@pytest.mark.parametrize("name", ["mma.f16", "mma.bf16"])
def test_mma_must_have_added_its_product_that_often(name: str) -> None:
    instruction = INSTRUCTIONS[name]
    arm = Arm(instruction, patterns_of(instruction)[0], 1, 1)
    data = image(instruction, arm.pattern, 1)
    product = first_mma_product(instruction, data)
    assert np.abs(product).max() > 0.5
    good = (1000 * product).astype(np.float32).view(np.uint32)[None]
    check_sinks(arm, good, data, 1000)
    for wrong in (1000 * product * 0.9, 0 * product, np.full(32, math.nan), np.roll(1000 * product, 1)):
        with pytest.raises(BenchError, match="not 1000 times the product"):
            check_sinks(arm, wrong.astype(np.float32).view(np.uint32)[None], data, 1000)


def test_mma_above_the_chip_is_refused() -> None:
    check_mma_limit("mma.f16/registers/w32.i4", 1.0, "9.0")
    check_mma_limit("mma.f16/registers/w32.i4", 0.1, "12.3")  # no limit on file
    with pytest.raises(BenchError, match=r"0\.900 cycles per mma and SM is below the tensor cores' floor of 1\.000"):
        check_mma_limit("mma.f16/registers/w32.i4", 0.9, "9.0")


def test_cells_are_about_as_long_as_asked() -> None:
    for arm in arms_of(InstructionsConfig()):
        short, long = loops_for(arm, 20_000), loops_for(arm, 2_000_000)
        assert 4 <= short < long


SMALL = InstructionsConfig(
    instructions=["ld.shared.b32", "ldmatrix.x4.trans", "mma.bf16"],
    warps=[1, 32],
    in_flight=[1, 4],
    random_patterns=1,
    target_cycles=50_000,
)


@pytest.mark.gpu
def test_a_small_run_stays_within_the_hardware() -> None:
    arm_set = instruction_cells.make_arms(SMALL)
    assert set(arm_set.arms) >= {arm.name for arm in arms_of(SMALL)}
    cells = {name: arm() for name, arm in arm_set.arms.items()}
    for name, cell in cells.items():
        assert cell.sm_cycles > 0, name
        assert cell.values.get("bytes_per_clk_per_sm", 0) < 130, name
    one, many = cells["ld.shared.b32/way1/w1.i1"], cells["ld.shared.b32/way1/w32.i4"]
    assert one.values["cycles_per_instruction"] > 10 > many.values["cycles_per_instruction"]
    assert f"{reference_arm(arms_of(SMALL)).name}.twin" in cells


@pytest.mark.gpu
def test_a_chain_that_leads_astray_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def astray(instruction: object, pattern: Pattern, seed: int) -> np.ndarray:
        turned = Pattern(pattern.name, pattern.offsets, pattern.ways)
        data = image(B32, turned, seed)
        words = data.view(np.uint32)
        words[pattern.offsets[3] // 4] = pattern.offsets[4]
        return data

    monkeypatch.setattr(instruction_cells, "image", astray)
    config = SMALL.model_copy(update={"instructions": ["ld.shared.b32"]})
    arm = instruction_cells.make_arms(config).arms["ld.shared.b32/way1/w1.i1"]
    with pytest.raises(BenchError, match="wrong address"):
        arm()


@pytest.mark.gpu
def test_a_rate_above_the_port_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instruction_cells, "port_bytes", lambda *_: 256)
    arm = instruction_cells.make_arms(SMALL).arms["ld.shared.b32/way1/w32.i4"]
    with pytest.raises(BenchError, match="above the limit of 128 B/clk/SM"):
        arm()


@pytest.mark.gpu
def test_recorded_run_in_fresh_processes() -> None:
    from micro.cli.instructions import measured_text
    from stats.run.trials import run_trials

    config = SMALL.model_copy(update={"processes": 1, "blocks": 2, "warmup_blocks": 0})
    reference = reference_arm(arms_of(config)).name
    spec = config.trial_spec("micro-bench instructions", reference, f"{reference}.twin")
    record = run_trials(spec, functools.partial(instruction_cells.make_arms, config))
    assert "ldmatrix.x4.trans" in measured_text(record, "table")
