"""What may a configuration of the micro-benchmark say?

Variants, swizzle, works and residency on top of the trial part that all experiments share; what is not named here is
refused with file, line and key. The trap: the order of ``variants`` matters, because the last one is the reference that
the others are compared with and whose twin runs.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator

from micro.model.variants import VARIANTS, known_variants
from stats.run.config import TrialConfig

DoMma = Literal["0", "1", "both"]
SwizzleChoice = Literal["on", "off", "both"]
VariantNames = Annotated[list[str], AfterValidator(known_variants)]


class MicroConfig(TrialConfig):
    """``configs/micro.yaml`` and its kin."""

    variants: VariantNames = Field(default_factory=lambda: list(VARIANTS), min_length=1)
    swizzle: SwizzleChoice = "both"
    do_mma: DoMma = "both"
    blocks_per_sm: Literal[1, 2] = 2
    loops: int = Field(default=101, ge=1, le=100_001)  # passes over the ring of tiles in one launch
    launches: int = Field(default=1, ge=1, le=1000)  # launches measured as one cell

    @field_validator("variants")
    @classmethod
    def _no_repeats(cls, names: list[str]) -> list[str]:
        if len(set(names)) != len(names):
            raise ValueError("a variant is given twice")
        return names

    @property
    def swizzles(self) -> list[bool]:
        """Swizzle on first, as tables show it."""
        return {"on": [True], "off": [False], "both": [True, False]}[self.swizzle]
