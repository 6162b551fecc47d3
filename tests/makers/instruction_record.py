"""A record of ``micro-bench instructions`` from a made-up SM with known costs, for tests without a GPU.

Latency is 29 + 2 per extra wavefront (mma 33); an SM serves one wavefront a cycle and an mma every 2; what is under way
divided by the latency bounds the rate, as Little's law has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from micro.bench.instructions.design import Arm, InstructionsConfig, arms_of, reference_arm
from micro.model.patterns import wavefronts_of
from stats.record.schema import ArmInfo, Device, Record, SkipRow
from tests.makers.rows import H200, filled, header

LATENCY, SLOPE = 29.0, 2.0


def latency_of(arm: Arm) -> float:
    cost = wavefronts_of(arm.instruction, arm.pattern)
    return 33.0 if cost is None else LATENCY + SLOPE * (cost.total - cost.phases)


def cycles_of(arm: Arm) -> float:
    cost = wavefronts_of(arm.instruction, arm.pattern)
    served = 2.0 if cost is None else float(cost.total)
    return max(served, latency_of(arm) / (arm.warps * arm.in_flight))


def make_record(
    config: InstructionsConfig, cycles: Callable[[Arm], float] = cycles_of, device: Device = H200
) -> Record:
    arms = arms_of(config)
    reference = reference_arm(arms)
    twin = f"{reference.name}.twin"
    made = header(
        [ArmInfo(name=arm.name, static=arm.static()) for arm in arms] + [ArmInfo(name=twin, static=reference.static())],
        tool="micro-bench instructions", device=device, config=config.model_dump(mode="json"), seed=config.seed,
        comparisons=[], workload={"kernel": "instructions", "blocks_per_sm": 1},
    )  # fmt: skip
    cells = {arm.name: arm for arm in arms if arm.instruction.name != "stmatrix.x2"} | {twin: reference}

    def facts(name: str, process: int, block: int) -> dict[str, Any]:
        values = {"cycles_per_instruction": cycles(cells[name]) * (1 + 1e-4 * (process - 0.5))}
        times = {"time_ns": 1e5, "sm_cycles": 2e5, "clock_mhz": 1980.0, "started_s": 30.0 * block}
        return {**times, "values": values}

    return filled(made, list(cells), facts, [SkipRow(arm.name, "needs sm_90") for arm in arms if arm.name not in cells])
