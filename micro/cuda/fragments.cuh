// One k-step of a warp's 64 x 32 of C: the registers of its fragments, their loads, and the mma over all of them.
//
// Micro loop and GEMM share this, so that both run the same instructions in the same order. The trap: the order of mma
// is part of the result, since every accumulator must see its k-steps alike in every variant.
#pragma once
#include "layout.cuh"
#include "ptx.cuh"

struct Fragments {
  uint32_t a[layout::M_FRAGMENTS][layout::A_REGISTERS], b[layout::N_FRAGMENTS][layout::B_REGISTERS];
};

using Accumulators = float[layout::M_FRAGMENTS][layout::N_FRAGMENTS][layout::C_REGISTERS];

template <typename Path>
__device__ __forceinline__ void load_fragments(Fragments& f, const Path& path, int stage_bytes, int kstep) {
#pragma unroll
  for (int m = 0; m < layout::M_FRAGMENTS; ++m) path.load_a(f.a[m], stage_bytes, kstep, m);
#pragma unroll
  for (int n = 0; n < layout::N_FRAGMENTS; ++n) path.load_b(f.b[n], stage_bytes, kstep, n);
}

// What loads that nothing multiplies leave behind: a use that the compiler cannot remove.
__device__ __forceinline__ uint32_t fold(const Fragments& f) {
  uint32_t sink = 0;
#pragma unroll
  for (int m = 0; m < layout::M_FRAGMENTS; ++m)
#pragma unroll
    for (int r = 0; r < layout::A_REGISTERS; ++r) sink ^= f.a[m][r];
#pragma unroll
  for (int n = 0; n < layout::N_FRAGMENTS; ++n) sink ^= f.b[n][0] ^ f.b[n][1];
  return sink;
}

template <typename T>
__device__ __forceinline__ void multiply(Accumulators& acc, const Fragments& f) {
#pragma unroll
  for (int m = 0; m < layout::M_FRAGMENTS; ++m)
#pragma unroll
    for (int n = 0; n < layout::N_FRAGMENTS; ++n) ptx::mma_m16n8k16<T>(acc[m][n], f.a[m], f.b[n]);
}
