// What does a kernel use, and how many of its blocks does an SM of the current device hold?
//
// The driver's own answer, for the dynamic shared memory of the coming launch. The trap: more than 48 KB of it launches
// only after an opt-in, which is set here, so every launch needs this call first.
#pragma once
#include <cuda_runtime.h>

struct KernelResources {
  int registers, local_bytes, static_shared_bytes, resident_blocks;
};

namespace {

// Writes `out` only where nothing fails. Local memory is what spills.
cudaError_t prepare_kernel(const void* kernel, int threads, int dynamic_bytes, KernelResources* out) {
  cudaFuncAttributes attributes;
  cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
  if (error != cudaSuccess) return error;
  error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, dynamic_bytes);
  if (error != cudaSuccess) return error;
  int resident_blocks;
  error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident_blocks, kernel, threads, dynamic_bytes);
  if (error != cudaSuccess) return error;
  *out = {attributes.numRegs, static_cast<int>(attributes.localSizeBytes), static_cast<int>(attributes.sharedSizeBytes),
          resident_blocks};
  return cudaSuccess;
}

}  // namespace
