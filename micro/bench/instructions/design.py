"""What is measured of each instruction: which patterns, with how many warps and how many instructions in flight?

An arm is instruction/pattern/wW.iI. One warp with one chain (w1.i1) gives latency; throughput_warps and
throughput_in_flight give throughput; the conflict-free pattern runs over the whole grid of warps and chains. The trap:
a config that someone edits after the run must not change what the record means, so each arm's offsets, wavefronts and
bytes go into the record's header.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field, field_validator

from micro.model.patterns import (
    INSTRUCTIONS,
    Instruction,
    Pattern,
    Work,
    patterns_of,
    port_bytes,
    wavefronts_of,
)
from stats.run.config import TrialConfig

INSTRUCTIONS_PER_LOOP = 64  # of instructions.cu; a test holds them equal
LATENCY = (1, 1)  # warps, in flight

Warps = Literal[1, 2, 4, 8, 16, 32]
InFlight = Literal[1, 2, 4, 8]
ALL_WARPS: tuple[Warps, ...] = (1, 2, 4, 8, 16, 32)
ALL_IN_FLIGHT: tuple[InFlight, ...] = (1, 2, 4, 8)


class InstructionsConfig(TrialConfig):
    """``configs/instructions.yaml``."""

    instructions: list[str] = Field(default_factory=lambda: list(INSTRUCTIONS), min_length=1)
    warps: list[Warps] = Field(default_factory=lambda: list(ALL_WARPS), min_length=1)
    in_flight: list[InFlight] = Field(default_factory=lambda: list(ALL_IN_FLIGHT), min_length=1)
    throughput_warps: Warps = 32
    throughput_in_flight: InFlight = 4
    random_patterns: int = Field(default=4, ge=0, le=64)  # per load
    target_cycles: int = Field(default=400_000, ge=10_000, le=50_000_000)  # length of one cell

    @field_validator("instructions")
    @classmethod
    def _known(cls, names: list[str]) -> list[str]:
        for name in names:
            if name not in INSTRUCTIONS:
                raise ValueError(f"{name!r} is unknown; choose from {', '.join(INSTRUCTIONS)}")
        if len(set(names)) != len(names):
            raise ValueError("an instruction is given twice")
        return names


@dataclass(frozen=True)
class Arm:
    """One cell of the table: an instruction, the addresses it is given, and how much of it is under way."""

    instruction: Instruction
    pattern: Pattern
    warps: int
    in_flight: int
    quoted: bool = False  # throughput is quoted here

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
            "latency": (self.warps, self.in_flight) == LATENCY and self.instruction.work is not Work.STORE,
            "throughput": self.quoted,
            "offsets_bytes": list(self.pattern.offsets),
        }


def throughput_point(config: InstructionsConfig, instruction: Instruction) -> tuple[int, int]:
    """Warps and instructions in flight at which the instruction's throughput is quoted."""
    return config.throughput_warps, min(config.throughput_in_flight, max(instruction.in_flight))


def arms_of(config: InstructionsConfig) -> list[Arm]:
    """Every arm of a config, each once: latency, throughput, and the grid of the conflict-free pattern."""
    found: dict[str, Arm] = {}
    for name in config.instructions:
        instruction = INSTRUCTIONS[name]
        for pattern in patterns_of(instruction, random_patterns=config.random_patterns, seed=config.seed):
            quoted = throughput_point(config, instruction)
            points = [quoted]
            if instruction.work is not Work.STORE:  # a store has no latency that a register could show
                points.append(LATENCY)
            if pattern.name in ("way1", "registers"):
                points += [(w, i) for w in config.warps for i in config.in_flight if i in instruction.in_flight]
            for warps, in_flight in points:
                arm = Arm(instruction, pattern, warps, in_flight, (warps, in_flight) == quoted)
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
    latency = (30 + (cost.total if cost else 0)) / arm.in_flight
    return max(4, math.ceil(target_cycles / (INSTRUCTIONS_PER_LOOP * max(rate, latency))))
