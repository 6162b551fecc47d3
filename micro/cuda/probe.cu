// How many cycles did every SM spend between two points of a stream, and at what clock?
//
// A probe is one block on every SM (its shared memory leaves no room for a second) that reads the SM's cycle counter
// and the global nanosecond timer. The difference of two probes is what the SM spent in between, whatever its frequency
// did. `hold` makes the stream wait until the host has enqueued a whole cell, so that no gap between launches is
// counted. The trap: a host that waits for the held stream waits for ever, so a hold ends by itself.
#include <cuda_runtime.h>

#include "error.cuh"
#include "ptx.cuh"

namespace {

struct Stamp {
  uint64_t clock, ns;
  uint32_t sm, pad;
};

__global__ void probe_kernel(Stamp* stamps) {
  if (threadIdx.x != 0) return;
  Stamp stamp;
  stamp.ns = ptx::globaltimer_ns();
  stamp.clock = ptx::clock64();
  stamp.sm = ptx::sm_id();
  stamp.pad = 0;
  stamps[blockIdx.x] = stamp;
}

// Waits until the host writes `ticket` to its memory; longest_ns bounds the wait for a host that died.
__global__ void hold_kernel(const volatile uint32_t* flag, uint32_t ticket, uint64_t longest_ns) {
  const uint64_t end = ptx::globaltimer_ns() + longest_ns;
  while (*flag != ticket && ptx::globaltimer_ns() < end) {
  }
}

// Every SM spends this many of its own cycles: the effect of known size that campaigns inject.
__global__ void spin_kernel(uint64_t cycles) {
  const uint64_t end = ptx::clock64() + cycles;
  while (ptx::clock64() < end) {
  }
}

}  // namespace

extern "C" {

const char* probe_error_string(int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); }

// Once per process: allow the probe the shared memory that keeps it alone on its SM.
int probe_prepare(int shared_bytes) {
  return answer(cudaFuncSetAttribute(reinterpret_cast<const void*>(probe_kernel),
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
}
int probe_launch(int sm_count, int shared_bytes, void* stamps, void* stream) {
  void* arguments[] = {&stamps};
  return answer(cudaLaunchKernel(reinterpret_cast<const void*>(probe_kernel), dim3(sm_count), dim3(32), arguments,
                                 shared_bytes, static_cast<cudaStream_t>(stream)));
}
// flag: a word of page-locked host memory.
int probe_hold(const void* flag, unsigned ticket, unsigned long long longest_ns, void* stream) {
  uint64_t bound = longest_ns;
  void* arguments[] = {&flag, &ticket, &bound};
  return answer(cudaLaunchKernel(reinterpret_cast<const void*>(hold_kernel), dim3(1), dim3(1), arguments, 0,
                                 static_cast<cudaStream_t>(stream)));
}
int probe_spin(int blocks, unsigned long long cycles, void* stream) {
  uint64_t duration = cycles;
  void* arguments[] = {&duration};
  return answer(cudaLaunchKernel(reinterpret_cast<const void*>(spin_kernel), dim3(blocks), dim3(1), arguments, 0,
                                 static_cast<cudaStream_t>(stream)));
}

}  // extern "C"
