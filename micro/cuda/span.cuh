// When did each warp start and end its timed loop, and on which SM?
//
// A warp reads the SM's cycle counter and the global nanosecond timer before and after the loop; the caller takes last
// end minus first start over the warps of an SM. The trap: a clock is read when it is issued, not when the loads before
// it have delivered, so the end clock stands behind a vote that needs the last value of every lane. The vote is stored,
// or ptxas drops it.
#pragma once
#include "ptx.cuh"

// SPAN of micro/spans.py is the same record.
struct WarpSpan {
  uint64_t start_clock, end_clock, start_ns, end_ns;
  uint32_t sm, vote;

  __device__ __forceinline__ void begin() {
    start_ns = ptx::globaltimer_ns();
    start_clock = ptx::clock64();
  }
  // last: what depends on everything that the loop loaded or computed.
  __device__ __forceinline__ void finish(uint32_t last) {
    vote = ptx::ballot_nonzero(last);
    end_clock = ptx::clock64();
    end_ns = ptx::globaltimer_ns();
    sm = ptx::sm_id();
  }
};
static_assert(sizeof(WarpSpan) == 40, "SPAN of micro/spans.py has 40 bytes");
