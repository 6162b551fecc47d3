"""What should a load-only k-step cost, from the addresses alone, and how far was the measurement from it?

A shared-memory access takes as many wavefronts as its busiest bank has distinct words; the port serves one wavefront a
cycle and the load/store unit one warp instruction a cycle, so a k-step takes max(wavefronts, instructions) cycles. Both
come from ``layout.cuh``. The trap: this is a prediction, and every output that shows one says so.
"""

from __future__ import annotations

from dataclasses import dataclass

from micro.gpu.device import SHARED_BYTES_PER_CLK
from micro.model.banks import kstep_wavefronts
from micro.model.layout import layout
from micro.model.variants import VARIANTS


@dataclass(frozen=True)
class Prediction:
    """Per warp k-step: load instructions, wavefronts, cycles of the SM's port, and the rate that follows."""

    variant: str
    swizzle: bool
    instructions: int
    wavefronts: int
    cycles: float
    bytes: int

    @property
    def bytes_per_clk_per_sm(self) -> float:
        """Fragment bytes per cycle and SM."""
        return self.bytes / self.cycles

    @property
    def percent_of_limit(self) -> float:
        """Of the 128 bytes that shared memory delivers per cycle and SM."""
        return 100 * self.bytes_per_clk_per_sm / SHARED_BYTES_PER_CLK


def predict_load_only(variant: str, swizzle: bool) -> Prediction:
    """The load-only prediction of one variant (a name of ``VARIANTS``)."""
    count = kstep_wavefronts(VARIANTS[variant], swizzle)
    return Prediction(
        variant=variant,
        swizzle=swizzle,
        instructions=count.instructions,
        wavefronts=count.total,
        cycles=float(max(count.total, count.instructions)),
        bytes=layout().constants.bytes_per_kstep,
    )
