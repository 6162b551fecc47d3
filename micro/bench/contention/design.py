"""What is measured of contention: which instructions, how many in a pass, with mma or alone, beside how many copies?

An arm is ``ld.shared.b32/n24+cp.async/c2+mma``: what a warp does in one pass, 16 mma of which are a k-step's worth.
What a part costs is told by the arm that lacks it (``base``). The trap: with few instructions a pass the tensor cores
hide what does not hold up the next mma, with many the port is the limit, so a cost is a figure of its number, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from pydantic import Field

from stats.run.config import TrialConfig

WARPS, PASSES_PER_LOOP = 16, 4  # of contention.cu; a test holds them equal
MMAS = 16  # of a pass, as of a k-step
COPIES = "cp.async"  # as a kind, where costs are listed


@dataclass(frozen=True)
class Kind:
    """One instruction: cycles of the SM's load port that it takes, and the machine instruction it must become."""

    name: str
    port_cycles: int  # wavefronts without conflict
    machine: str | None


KINDS = (  # in the order of the enum in contention.cu
    Kind("none", 0, None),
    Kind("ld.shared.b32", 1, "LDS"),
    Kind("ld.shared.b16", 1, "LDS.U16"),
    Kind("ldmatrix.x4", 4, "LDSM.16.M88.4"),
    Kind("ldmatrix.x2", 2, "LDSM.16.M88.2"),
    Kind("ldmatrix.x2.trans", 2, "LDSM.16.MT88.2"),
    Kind("st.shared.b32", 1, "STS"),
    Kind("prmt", 0, "PRMT"),
)
_KIND = {kind.name: kind for kind in KINDS}


class ContentionConfig(TrialConfig):
    """``configs/contention.yaml``."""

    target_cycles: int = Field(default=400_000, ge=10_000, le=5_000_000)  # length of one cell


@dataclass(frozen=True)
class Arm:
    """What a warp does in one pass. ``copies`` 0 commits and waits for an empty group, None does not even that."""

    kind: Kind = _KIND["none"]
    instructions: int = 0
    copies: int | None = None
    with_mma: bool = True

    @property
    def name(self) -> str:
        """``ld.shared.b32/n24+cp.async/c2+mma``; an absent part is left out."""
        parts = [f"{self.kind.name}/n{self.instructions}"] if self.instructions else []
        parts += [] if self.copies is None else [f"{COPIES}/c{self.copies}"]
        return "+".join([*parts, *(["mma"] if self.with_mma else [])])

    @property
    def mmas(self) -> int:
        """mma in a pass."""
        return MMAS if self.with_mma else 0

    @property
    def port_cycles(self) -> int:
        """SM cycles of the load port in a pass; what a copy brings is not counted."""
        return self.instructions * self.kind.port_cycles

    @property
    def base(self) -> Arm | None:
        """The arm without the part whose cost is asked, None where there is none.

        Of copies it is the arm with the next fewer of them; ``/c0`` or, where no such arm is, that without a group.
        """
        if self.copies is None:
            return Arm() if self.with_mma and self.instructions else None
        alike = [arm.copies for arm in ARMS if replace(arm, copies=self.copies) == self]
        fewer = [copies for copies in alike if copies is not None and copies < self.copies]
        return replace(self, copies=max(fewer, default=None))

    @property
    def added(self) -> int:
        """Instructions that the base lacks; an empty group (its commit and its wait) counts as one."""
        if self.copies is None:
            return self.instructions
        copies_of_base = self.base.copies if self.base else None
        return max(1, self.copies - (copies_of_base or 0))

    def static(self) -> dict[str, Any]:
        """What is known of the arm without running it, for the record's header."""
        return {
            "kind": self.kind.name,
            "instructions": self.instructions,
            "mmas": self.mmas,
            "copies": self.copies,
            "port_cycles": self.port_cycles,
            "base": self.base.name if self.base else None,
            "added": self.added if self.base else None,
        }


def _of(kind: str, *counts: int, with_mma: bool = True, copies: int | None = None) -> list[Arm]:
    return [Arm(_KIND[kind], count, copies, with_mma) for count in counts]


# Names and order: arms of contention.cu; a test holds them equal.
ARMS: tuple[Arm, ...] = (
    Arm(),
    *_of("ld.shared.b32", 2, 4, 8, 16, 24, 32, 48),
    *_of("ld.shared.b32", 24, 48, with_mma=False),
    *_of("ld.shared.b16", 16, 32),
    *_of("ldmatrix.x4", 1, 2, 4, 8),
    *_of("ldmatrix.x4", 6, 12, with_mma=False),
    *_of("ldmatrix.x2", 4, 8, 16),
    *_of("ldmatrix.x2.trans", 4, 8),
    *_of("st.shared.b32", 4, 8, 16),
    *_of("st.shared.b32", 32, with_mma=False),
    *_of("prmt", 8, 16, 32),
    *_of("prmt", 48, with_mma=False),
    *(Arm(copies=copies) for copies in (1, 2, 4)),
    *(arm for count in (8, 24) for copies in (1, 2) for arm in _of("ld.shared.b32", count, copies=copies)),
    *(arm for copies in (0, 1, 2) for arm in _of("ld.shared.b32", 24, copies=copies, with_mma=False)),
    *(arm for copies in (0, 1, 2) for arm in _of("ldmatrix.x4", 6, copies=copies, with_mma=False)),
)
REFERENCE = ARMS[0].name
_BY_NAME = {arm.name: arm for arm in ARMS}


def arm_called(name: str) -> Arm | None:
    """The arm of that name, None for others (a twin, an arm of an older record)."""
    return _BY_NAME.get(name)


def loops_for(arm: Arm, target_cycles: int) -> int:
    """Trips of the loop for a cell of about ``target_cycles``: only the length of a cell depends on this guess."""
    guess = max(arm.port_cycles, arm.instructions / 2, 1.5 * arm.mmas) + 4 * (arm.copies or 0)
    return max(4, math.ceil(target_cycles / (WARPS * PASSES_PER_LOOP * guess)))
