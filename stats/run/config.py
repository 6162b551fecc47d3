"""What every experiment states before it runs: the design of its trials and its exclusion rule, from YAML.

micro and gemm configs add their own keys. A default that nobody stated is part of the experiment, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field, field_validator

from stats.base.config import ConfigModel
from stats.record.schema import MarginPercent, Processes, Seed, compared_arms
from stats.run.spec import TrialSpec


class ExclusionConfig(ConfigModel):
    """Which whole blocks the analysis leaves out, stated before the run.

    The meaning is ``stats.analysis.exclusion``'s.
    """

    allowed_reasons: list[str] | None = None  # throttle reasons that exclude nothing; None: the default of the rule
    clock_tolerance_percent: float = Field(5.0, gt=0)
    other_processes: bool = True
    limit_percent: float = Field(20.0, gt=0, le=100)


class TrialConfig(ConfigModel):
    """What every experiment states before it runs; micro and gemm configs add their own keys."""

    processes: Processes = 8
    blocks: int = Field(20, ge=2, le=100_000)  # even, so that each order is run as often as its reverse
    warmup_blocks: int = Field(2, ge=0)
    seed: Seed = 1
    margin_percent: MarginPercent = 0.5
    clocks: Literal["lock", "monitor", "auto"] = "monitor"  # a card's settings change only when asked
    sm_mhz: int | None = Field(None, gt=0)  # None: the chip's base clock
    memory_mhz: int | None = Field(None, gt=0)
    comparisons: list[tuple[str, str]] = Field(default_factory=list)  # the declared family
    l2_mode: Literal["hot", "flushed"] = "hot"
    cell_timeout_s: float = Field(120.0, gt=0)
    exclusion: ExclusionConfig | None = None

    @field_validator("blocks")
    @classmethod
    def _even(cls, blocks: int) -> int:
        if blocks % 2:
            raise ValueError(f"{blocks} is odd; every order needs its reverse, so choose an even number")
        return blocks

    _of_different_arms = field_validator("comparisons")(compared_arms)

    def trial_spec(self, tool: str, reference: str, twin: str | None = None, preload: Sequence[str] = ()) -> TrialSpec:
        """The spec of a run with this config, which travels into the header as plain data."""
        return TrialSpec(
            tool=tool,
            reference=reference,
            twin=twin,
            comparisons=self.comparisons,
            margin_percent=self.margin_percent,
            processes=self.processes,
            blocks=self.blocks,
            warmup_blocks=self.warmup_blocks,
            seed=self.seed,
            clocks=self.clocks,
            sm_mhz=self.sm_mhz,
            memory_mhz=self.memory_mhz,
            config=self.model_dump(mode="json"),
            l2_mode=self.l2_mode,
            preload=preload,
            cell_timeout_s=self.cell_timeout_s,
        )
