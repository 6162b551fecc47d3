"""Which counters are asked for, by which names: the model of ``configs/counters.yaml``.

A metric is a question (key, group, the predicted figure it must equal) and the names under which chips and versions of
ncu answer it, best first. The trap: two names that answer different questions must be two metrics, or a table would
compare a record of one chip with another question's of the next.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from micro.counters.launch_counts import KEYS
from stats.base.config import ConfigModel

Group = Literal["instructions", "wavefronts", "conflicts", "use", "stalls", "opcodes", "addresses"]


class Metric(ConfigModel):
    """One question to the hardware."""

    key: str
    group: Group
    names: list[str] = Field(min_length=1)  # the first that exists is asked for
    predicted: str | None = None  # a key of micro.counters.launch_counts
    unit: str = ""
    listed: bool = True  # whether `ncu --query-metrics` lists metrics of this kind

    @model_validator(mode="after")
    def _known_prediction(self) -> Metric:
        if self.predicted is not None and self.predicted not in KEYS:
            raise ValueError(f"predicted {self.predicted}: choose from {', '.join(KEYS)}")
        return self


class Draft(ConfigModel):
    """A counter name under test, and the metrics that answer its question."""

    name: str
    stands_for: list[str] = Field(min_length=1)


class MicroLaunch(ConfigModel):
    """Size of the micro kernels' launch."""

    loops: int = Field(101, ge=1, le=100_001)  # odd: an xor over an even number of passes is zero
    blocks_per_sm: Literal[1, 2] = 2


class GemmLaunch(ConfigModel):
    """Shape of the GEMM's launch: few k-steps, enough blocks to fill the device once."""

    m: int = Field(2048, ge=128)
    n: int = Field(2048, ge=128)
    k: int = Field(512, ge=32)


class CountersConfig(ConfigModel):
    """``configs/counters.yaml`` and its kin."""

    clock_control: Literal["none", "base"] = "none"
    cache_control: Literal["none", "all"] = "all"
    micro: MicroLaunch = Field(default_factory=MicroLaunch)
    gemm: GemmLaunch = Field(default_factory=GemmLaunch)
    metrics: list[Metric] = Field(min_length=1)
    drafts: list[Draft] = Field(default_factory=list)

    @model_validator(mode="after")
    def _consistent(self) -> CountersConfig:
        keys = [metric.key for metric in self.metrics]
        for key in keys:
            if keys.count(key) > 1:
                raise ValueError(f"metric {key} is given twice")
        for draft in self.drafts:
            for key in draft.stands_for:
                if key not in keys:
                    raise ValueError(f"draft {draft.name} stands for {key}, which is no metric here")
        return self
