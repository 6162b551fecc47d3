"""From the clocks that warps wrote to cycles per warp k-step, refusing what cannot be true.

Per SM: last end minus first start over all its warps, divided by the k-steps they did. Three checks, each able to stop
a run: every SM holds the intended blocks, no SM moved more than 128 bytes a cycle, no SM multiplied faster than its
tensor cores. The trap that this replaces: averaging per-warp spans reports bandwidths above the hardware's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from micro.gpu.device import SHARED_BYTES_PER_CLK
from stats.base.errors import BenchError

# WarpSpan of span.cuh: what one warp writes.
SPAN = np.dtype(
    [
        *((name, "<u8") for name in ("start_clock", "end_clock", "start_ns", "end_ns")),
        *((name, "<u4") for name in ("sm", "vote")),
    ]
)
TOLERANCE = 1.01  # a figure more than 1 % above a physical limit is a measurement error


@dataclass(frozen=True)
class SmSpans:
    """Per SM, sorted by id: cycles and nanoseconds from first start to last end, and warps that ran; arrays [SMs]."""

    sm: NDArray[np.int64]
    cycles: NDArray[np.float64]
    ns: NDArray[np.float64]
    warps: NDArray[np.int64]

    def cycles_per_kstep(self, ksteps_per_warp: int) -> NDArray[np.float64]:
        """SM cycles per warp k-step: span over all k-steps that the SM's warps did; array [SMs]."""
        return self.cycles / (self.warps * ksteps_per_warp)

    @property
    def clock_mhz(self) -> float:
        """Average SM clock over the spans."""
        return float(self.cycles.sum() / self.ns.sum() * 1e3)


def sm_spans(spans: NDArray[np.void]) -> SmSpans:
    """Group warp spans (structured array of ``SPAN``) by SM."""
    ids, inverse, warps = np.unique(spans["sm"], return_inverse=True, return_counts=True)

    def reduce(ufunc: np.ufunc, name: str, start: int) -> NDArray[np.uint64]:
        out = np.full(len(ids), start, dtype=np.uint64)
        ufunc.at(out, inverse, spans[name])
        return out

    largest = np.iinfo(np.uint64).max
    cycles = reduce(np.maximum, "end_clock", 0) - reduce(np.minimum, "start_clock", largest)
    ns = reduce(np.maximum, "end_ns", 0) - reduce(np.minimum, "start_ns", largest)
    return SmSpans(ids.astype(np.int64), cycles.astype(np.float64), ns.astype(np.float64), warps.astype(np.int64))


def check_residency(spans: SmSpans, sm_count: int, blocks_per_sm: int, warps_per_block: int, what: str) -> None:
    """Raise BenchError unless every SM ran exactly ``blocks_per_sm`` blocks."""
    intended = blocks_per_sm * warps_per_block
    if len(spans.sm) != sm_count:
        raise BenchError(f"{what}: wrong residency: {len(spans.sm)} of {sm_count} SMs ran blocks; is the GPU shared?")
    wrong = np.flatnonzero(spans.warps != intended)
    if wrong.size:
        first = int(wrong[0])
        raise BenchError(
            f"{what}: wrong residency: SM {spans.sm[first]} ran {spans.warps[first] // warps_per_block} blocks, "
            f"intended {blocks_per_sm}; is the GPU shared?"
        )


def check_limits(
    spans: SmSpans, ksteps_per_warp: int, bytes_per_kstep: int, mma_floor_cycles: float | None, what: str
) -> None:
    """Raise BenchError when the fastest SM beat a physical limit by more than 1 %.

    ``bytes_per_kstep`` 0 where the loop loads nothing; ``mma_floor_cycles`` None where it multiplies nothing or no
    limit is on file.
    """
    fastest = float(spans.cycles_per_kstep(ksteps_per_warp).min())
    rate = bytes_per_kstep / fastest
    if rate > SHARED_BYTES_PER_CLK * TOLERANCE:
        raise BenchError(
            f"{what}: {rate:.2f} B/clk/SM is above the limit of {SHARED_BYTES_PER_CLK} B/clk/SM of shared memory: "
            "a measurement error, nothing is reported"
        )
    if mma_floor_cycles is not None and fastest * TOLERANCE < mma_floor_cycles:
        raise BenchError(
            f"{what}: {fastest:.2f} cycles per warp k-step is below the tensor cores' floor of {mma_floor_cycles:.2f}: "
            "a measurement error, nothing is reported"
        )
