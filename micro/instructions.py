"""What is measured of each instruction: which patterns, with how many warps and how many instructions in flight?

An arm is instruction/pattern/wW.iI. One warp with one chain (w1.i1) gives latency; throughput_warps and
throughput_in_flight give throughput; the conflict-free pattern runs over the whole grid of warps and chains. The trap: a
config that someone edits after the run must not change what the record means, so each arm's offsets, wavefronts and
bytes go into the record's header.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from micro.patterns import (
    Instruction,
    Pattern,
    Work,
    parse_instructions,
    patterns_of,
    port_bytes,
    wavefronts_of,
)

__all__ = ["INSTRUCTIONS_PER_LOOP", "Arm", "InstructionsConfig", "arms_of", "loops_for", "reference_arm"]

INSTRUCTIONS_PER_LOOP = 64  # of instructions.cu; a test holds them equal


class InstructionsConfig(BaseModel):
    """configs/instructions.yaml."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    instructions: list[str] = Field(default=["all"], min_length=1)
    warps: list[Literal[1, 2, 4, 8, 16, 32]] = Field(default=[1, 2, 4, 8, 16, 32], min_length=1)
    in_flight: list[Literal[1, 2, 4, 8]] = Field(default=[1, 2, 4, 8], min_length=1)
    throughput_warps: Literal[1, 2, 4, 8, 16, 32] = 32
    throughput_in_flight: Literal[1, 2, 4, 8] = 4
    random_patterns: int = Field(default=4, ge=0, le=64)
    target_cycles: int = Field(default=200_000, ge=10_000, le=50_000_000)
    processes: int = Field(default=4, ge=1)
    blocks: int = Field(default=2, ge=1)
    warmup_blocks: int = Field(default=0, ge=0)
    margin_percent: float = Field(default=0.5, gt=0)
    seed: int = Field(default=9, ge=0)
    clocks: Literal["lock", "monitor", "auto"] = "auto"


@dataclass(frozen=True)
class Arm:
    """One cell of the table: an instruction, the addresses it is given, and how much of it is under way."""

    instruction: Instruction
    pattern: Pattern
    warps: int
    in_flight: int

    @property
    def name(self) -> str:
        """``ld.shared.b32/way4/w32.i4``."""
        return f"{self.instruction.name}/{self.pattern.name}/w{self.warps}.i{self.in_flight}"

    def static(self) -> dict[str, Any]:
        """What is known of the arm without running it, for the record's header."""
        cost = wavefronts_of(self.instruction, self.pattern)
        return {
            "instruction": self.instruction.name,
            "pattern": self.pattern.name,
            "warps": self.warps,
            "in_flight": self.in_flight,
            "wavefronts": None if cost is None else cost.total,
            "least_wavefronts": None if cost is None else cost.phases,
            "bytes_per_instruction": self.instruction.bytes_per_instruction,
            "port_bytes": port_bytes(self.instruction, self.pattern),
            "for_fit": self.pattern.for_fit,
            "offsets_bytes": list(self.pattern.offsets),
        }


def arms_of(config: InstructionsConfig) -> list[Arm]:
    """Every arm of a config, each once: latency, throughput, and the grid of the conflict-free pattern."""
    found: dict[str, Arm] = {}
    for instruction in parse_instructions(config.instructions):
        for pattern in patterns_of(instruction, random_patterns=config.random_patterns, seed=config.seed):
            most = min(config.throughput_in_flight, max(instruction.in_flight))
            points = [(1, 1), (config.throughput_warps, most)]
            if pattern.name in ("way1", "registers"):
                points += [(w, i) for w in config.warps for i in config.in_flight if i in instruction.in_flight]
            for warps, in_flight in points:
                arm = Arm(instruction, pattern, warps, in_flight)
                found[arm.name] = arm
    return list(found.values())


def reference_arm(arms: list[Arm]) -> Arm:
    """The arm with the A/A twin: the throughput of a conflict-free load, ld.shared.b32 where that is measured."""
    candidates = [arm for arm in arms if arm.pattern.name == "way1" and arm.warps > 1] or arms
    return next((arm for arm in candidates if arm.instruction.name == "ld.shared.b32"), candidates[0])


def loops_for(arm: Arm, target_cycles: int) -> int:
    """Passes through the loop for a cell of about ``target_cycles``, from the bank model and a rough latency.

    Only the length of a cell depends on this guess, no figure does.
    """
    cost = wavefronts_of(arm.instruction, arm.pattern)
    rate = arm.warps * (cost.total if cost else 4)
    latency = (200 if arm.instruction.work is Work.CLUSTER_LOAD else 30 + (cost.total if cost else 0)) / arm.in_flight
    return max(4, math.ceil(target_cycles / (INSTRUCTIONS_PER_LOOP * max(rate, latency))))
