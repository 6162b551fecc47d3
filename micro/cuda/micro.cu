// What does the read path cost alone (load_only), what do the mma cost alone (mma_only), and what together (load_mma)?
//
// One block holds a ring of three stages of tiles, filled once; the loop then runs the k-steps of a GEMM's main loop
// with no global memory in it. Every warp writes its start and end clock, keyed by the SM it ran on: the caller takes
// last end minus first start per SM. The traps: a per-warp span is not the SM's (warps start apart); an xor over an
// even number of equal passes is zero, so the loop count is odd, and the sink of the timed kernel itself is verified.
#include <cuda_runtime.h>

#include "error.cuh"
#include "fragments.cuh"
#include "read_path.cuh"
#include "resources.cuh"
#include "span.cuh"

namespace {

using layout::BLayout;
using layout::ReadMode;

constexpr int STAGES = 3;
constexpr int TILE_RING_BYTES = STAGES * layout::STAGE_BYTES;
constexpr int KSTEPS_PER_LOOP = STAGES * layout::K_STEPS;

enum Work { load_only = 0, load_mma = 1, mma_only = 2 };

__device__ __forceinline__ uint32_t fold(const Accumulators& acc) {
  uint32_t sink = 0;
#pragma unroll
  for (int m = 0; m < layout::M_FRAGMENTS; ++m)
#pragma unroll
    for (int n = 0; n < layout::N_FRAGMENTS; ++n)
#pragma unroll
      for (int r = 0; r < layout::C_REGISTERS; ++r)
        sink ^= __float_as_uint(acc[m][n][r]) + layout::C_REGISTERS * (n + layout::N_FRAGMENTS * m) + r;
  return sink;
}

// tiles: STAGES x (A[BM][BK], then B in the variant's layout), row-major, in global memory.
template <BLayout B_LAYOUT, bool SWIZZLE>
__device__ __forceinline__ void fill_ring(uint32_t ring, const uint16_t* tiles) {
  for (int stage = 0; stage < STAGES; ++stage) {
    const uint16_t* a = tiles + stage * layout::STAGE_BYTES / layout::ELEMENT_BYTES;
    const uint16_t* b = a + layout::A_TILE_BYTES / layout::ELEMENT_BYTES;
    const uint32_t stage_address = ring + stage * layout::STAGE_BYTES;
    for (int chunk = threadIdx.x; chunk < layout::A_CHUNKS; chunk += layout::THREADS)
      ptx::st_shared_16(stage_address + layout::a_chunk_offset(SWIZZLE, chunk),
                        ptx::ld_global_16(a + chunk * layout::CHUNK_ELEMENTS));
    for (int chunk = threadIdx.x; chunk < layout::B_CHUNKS; chunk += layout::THREADS)
      ptx::st_shared_16(stage_address + layout::A_TILE_BYTES + layout::b_chunk_offset(B_LAYOUT, SWIZZLE, chunk),
                        ptx::ld_global_16(b + chunk * layout::CHUNK_ELEMENTS));
  }
  __syncthreads();
}

extern __shared__ __align__(128) unsigned char shared_bytes[];

template <ReadMode MODE, BLayout B_LAYOUT, bool SWIZZLE, Work WORK>
__global__ void __launch_bounds__(layout::THREADS, 2)
    micro_kernel(const uint16_t* tiles, int loops, WarpSpan* spans, uint32_t* sinks) {
  const uint32_t ring = ptx::shared_address(shared_bytes);
  fill_ring<B_LAYOUT, SWIZZLE>(ring, tiles);

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const ReadPath<MODE, B_LAYOUT, SWIZZLE> path(ring, ring + layout::A_TILE_BYTES, lane, warp / layout::WARPS_N,
                                               warp % layout::WARPS_N);
  uint32_t sink = 0;
  Accumulators acc = {};
  Fragments f;
  if constexpr (WORK == mma_only) load_fragments(f, path, 0, 0);
  __syncthreads();

  WarpSpan span;
  span.begin();
#pragma unroll 1
  for (int loop = 0; loop < loops; ++loop) {
    // `asm volatile` binds the front end only: ptxas knows that nobody writes the ring and lifts plain ld.shared out of
    // the load-only loop. A warp barrier orders memory, and costs one NOP a loop.
    __syncwarp();
#pragma unroll
    for (int step = 0; step < KSTEPS_PER_LOOP; ++step) {
      if constexpr (WORK != mma_only)
        load_fragments(f, path, step / layout::K_STEPS * layout::STAGE_BYTES, step % layout::K_STEPS);
      if constexpr (WORK == load_only) {
        sink ^= fold(f);
      } else {
        multiply<__nv_bfloat16>(acc, f);
      }
    }
  }
  if constexpr (WORK != load_only) sink = fold(acc);
  span.finish(sink);
  if (lane == 0) spans[blockIdx.x * layout::WARPS + warp] = span;
  sinks[blockIdx.x * layout::THREADS + threadIdx.x] = sink;
}

// Every fragment register of every warp, stage and k-step, once: fragments[stage][kstep][warp][lane][24].
template <ReadMode MODE, BLayout B_LAYOUT, bool SWIZZLE>
__global__ void __launch_bounds__(layout::THREADS) gather_kernel(const uint16_t* tiles, Fragments* fragments) {
  const uint32_t ring = ptx::shared_address(shared_bytes);
  fill_ring<B_LAYOUT, SWIZZLE>(ring, tiles);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const ReadPath<MODE, B_LAYOUT, SWIZZLE> path(ring, ring + layout::A_TILE_BYTES, lane, warp / layout::WARPS_N,
                                               warp % layout::WARPS_N);
#pragma unroll
  for (int step = 0; step < KSTEPS_PER_LOOP; ++step) {
    Fragments f;
    load_fragments(f, path, step / layout::K_STEPS * layout::STAGE_BYTES, step % layout::K_STEPS);
    fragments[step * layout::THREADS + threadIdx.x] = f;
  }
}

struct Variant {
  const char* name;
  int read_mode, b_layout, swizzle;
  const void* kernels[3];  // indexed by Work
  const void* gather;
};

template <ReadMode MODE, BLayout B_LAYOUT, bool SWIZZLE>
Variant variant(const char* name) {
  return {name,
          static_cast<int>(MODE),
          static_cast<int>(B_LAYOUT),
          SWIZZLE,
          {reinterpret_cast<const void*>(micro_kernel<MODE, B_LAYOUT, SWIZZLE, load_only>),
           reinterpret_cast<const void*>(micro_kernel<MODE, B_LAYOUT, SWIZZLE, load_mma>),
           reinterpret_cast<const void*>(micro_kernel<MODE, B_LAYOUT, SWIZZLE, mma_only>)},
          reinterpret_cast<const void*>(gather_kernel<MODE, B_LAYOUT, SWIZZLE>)};
}

#define VARIANT_PAIR(NAME, MODE, LAYOUT) \
  variant<ReadMode::MODE, BLayout::LAYOUT, true>(#NAME), variant<ReadMode::MODE, BLayout::LAYOUT, false>(#NAME),
const Variant variants[] = {SMEM_VARIANTS(VARIANT_PAIR)};
constexpr int variant_count = sizeof(variants) / sizeof(variants[0]);

}  // namespace

extern "C" {

struct MicroVariant {
  const char* name;
  int read_mode, b_layout, swizzle;
};

int micro_variant_count() { return variant_count; }
MicroVariant micro_variant(int index) {
  const Variant& v = variants[index];
  return {v.name, v.read_mode, v.b_layout, v.swizzle};
}
int micro_stages() { return STAGES; }
const char* micro_error_string(int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); }

int micro_resources(int index, int work, int shared_bytes_per_block, KernelResources* out) {
  return answer(prepare_kernel(variants[index].kernels[work], layout::THREADS, shared_bytes_per_block, out));
}

// spans: WarpSpan[blocks * WARPS]; sinks: uint32_t[blocks * THREADS]. micro_resources must have been called for this
// kernel and shared size: it sets the opt-in.
int micro_launch(int index, int work, int blocks, int shared_bytes_per_block, int loops, const void* tiles, void* spans,
                 void* sinks, void* stream) {
  void* arguments[] = {&tiles, &loops, &spans, &sinks};
  return answer(cudaLaunchKernel(variants[index].kernels[work], dim3(blocks), dim3(layout::THREADS), arguments,
                                 shared_bytes_per_block, static_cast<cudaStream_t>(stream)));
}

int micro_gather(int index, const void* tiles, void* fragments, void* stream) {
  const void* kernel = variants[index].gather;
  cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, TILE_RING_BYTES);
  void* arguments[] = {&tiles, &fragments};
  if (error == cudaSuccess)
    error = cudaLaunchKernel(kernel, dim3(1), dim3(layout::THREADS), arguments, TILE_RING_BYTES,
                             static_cast<cudaStream_t>(stream));
  return answer(error);
}

}  // extern "C"
