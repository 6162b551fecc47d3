// What does a C entry point answer when CUDA refuses?
//
// The error itself, and only to its caller. The trap: the runtime keeps the last error until somebody asks for it, and
// this library shares its runtime with torch: an error left behind is raised again by torch's next call.
#pragma once
#include <cuda_runtime.h>

namespace {

// Every entry point that returns a CUDA error returns it through this. Asking for the last error forgets it.
inline int answer(cudaError_t error) {
  if (error != cudaSuccess) cudaGetLastError();
  return error;
}

}  // namespace
