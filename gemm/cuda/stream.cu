// How fast does L2 fill shared memory by cp.async, how late does a copy arrive, and what does a block's barrier cost?
//
// tiles_*: the GEMM's own copies (same tiles, order of blocks, ring) with nothing multiplied, so that what blocks share
// in L2 and fetch from memory is as in the GEMM; reads_*: the same with a variant's fragments read. distinct: every
// block reads bytes of its own, over and over, all of them in L2. latency: one warp waits for one copy at a time. The
// trap: the rate of `tiles` is that of the GEMM's pattern and may be above what L2 gives to SMs that ask for different
// bytes.
#include <cuda_runtime.h>

#include "error.cuh"
#include "fragments.cuh"
#include "raster.cuh"
#include "read_path.cuh"
#include "resources.cuh"
#include "tile_source.cuh"

namespace {

using layout::BLayout;
using layout::ReadMode;
using Element = __nv_bfloat16;

constexpr int STAGES = 3;
constexpr int RING_BYTES = STAGES * layout::STAGE_BYTES;
constexpr int REGION_BYTES = 4 * layout::STAGE_BYTES;  // of a block in `distinct`
constexpr int LATENCY_STEPS = 256;

extern __shared__ __align__(128) unsigned char shared_bytes[];

// How a variant reads its fragments; none: it does not, and only the copies are left.
struct NoReads {
  static constexpr bool READS = false;
  __device__ __forceinline__ NoReads(uint32_t, uint32_t, int, int, int) {}
};
template <ReadMode READ_MODE, BLayout B_LAYOUT>
struct Reads : ReadPath<READ_MODE, B_LAYOUT, true> {
  static constexpr bool READS = true;
  using ReadPath<READ_MODE, B_LAYOUT, true>::ReadPath;
};

// out: a fold of all that was read, uint32_t[blocks * THREADS].
template <BLayout B_LAYOUT, typename Path>
__global__ void __launch_bounds__(layout::THREADS, 2)
    tiles_kernel(const Element* a, const Element* b, int m, int n, int k, int, uint32_t* out) {
  const uint32_t ring = ptx::shared_address(shared_bytes);
  const layout::Coord block = raster::block_of(blockIdx.x, m / layout::BM, n / layout::BN);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  TileSource<Element, LoadMode::cp_async, B_LAYOUT, true> source(a, b, n, k, block, ring);
  const Path path(ring, ring + layout::A_TILE_BYTES, lane, warp / layout::WARPS_N, warp % layout::WARPS_N);
  const int tiles = k / layout::BK;
  uint32_t sink = 0;
  fill_ring<STAGES>(source, tiles);
#pragma unroll 1
  for (int first = 0; first < tiles; first += STAGES) {
#pragma unroll
    for (int stage = 0; stage < STAGES; ++stage) {
      if (first + stage >= tiles) break;
      source.template wait<STAGES - 2>();
      __syncthreads();
      if (first + stage + STAGES - 1 < tiles) source.begin((stage + STAGES - 1) % STAGES * layout::STAGE_BYTES);
      source.commit();
      if constexpr (Path::READS) {
#pragma unroll
        for (int kstep = 0; kstep < layout::K_STEPS; ++kstep) {
          Fragments f;
          load_fragments(f, path, stage * layout::STAGE_BYTES, kstep);
          sink ^= fold(f);
        }
      }
    }
  }
  source.template wait<0>();
  out[blockIdx.x * layout::THREADS + threadIdx.x] = sink;
}

// k: passes over the block's region.
__global__ void __launch_bounds__(layout::THREADS, 2)
    distinct_kernel(const Element* a, const Element*, int, int, int k, int, uint32_t*) {
  const uint32_t ring = ptx::shared_address(shared_bytes);
  const unsigned char* region =
      reinterpret_cast<const unsigned char*>(a) + static_cast<size_t>(blockIdx.x) * REGION_BYTES;
  constexpr int TILES = REGION_BYTES / layout::STAGE_BYTES,
                COPIES = layout::STAGE_BYTES / layout::CHUNK_BYTES / layout::THREADS;
  const int tiles = k * TILES;
  const auto begin = [&](int tile) {
    const int stage = tile % STAGES * layout::STAGE_BYTES;
#pragma unroll
    for (int i = 0; i < COPIES; ++i) {
      const int offset = (i * layout::THREADS + threadIdx.x) * layout::CHUNK_BYTES;
      ptx::cp_async_16(ring + stage + offset, region + tile % TILES * layout::STAGE_BYTES + offset);
    }
  };
  for (int tile = 0; tile < STAGES - 1; ++tile) {
    begin(tile);
    ptx::cp_async_commit();
  }
#pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile) {
    ptx::cp_async_wait<STAGES - 2>();
    __syncthreads();
    if (tile + STAGES - 1 < tiles) begin(tile + STAGES - 1);
    ptx::cp_async_commit();
  }
  ptx::cp_async_wait<0>();
}

// out: cycles of LATENCY_STEPS copies, each waited for before the next, of bytes that the pass before brought into L2.
__global__ void latency_kernel(const Element* a, const Element*, int, int, int, int, uint32_t* out) {
  if (threadIdx.x >= 32) return;
  const uint32_t ring = ptx::shared_address(shared_bytes);
  const unsigned char* region = reinterpret_cast<const unsigned char*>(a);
  uint64_t start = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    start = ptx::clock64();
#pragma unroll 1
    for (int step = 0; step < LATENCY_STEPS; ++step) {
      ptx::cp_async_16(ring + threadIdx.x * layout::CHUNK_BYTES,
                       region + (step * 32 + threadIdx.x) * layout::CHUNK_BYTES);
      ptx::cp_async_commit();
      ptx::cp_async_wait<0>();
    }
  }
  if (threadIdx.x == 0) out[blockIdx.x] = static_cast<uint32_t>(ptx::clock64() - start);
}

// out: cycles of `loops` barriers of eight warps.
__global__ void __launch_bounds__(layout::THREADS)
    barrier_kernel(const Element*, const Element*, int, int, int, int loops, uint32_t* out) {
  __syncthreads();
  const uint64_t start = ptx::clock64();
#pragma unroll 4
  for (int loop = 0; loop < loops; ++loop) __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = static_cast<uint32_t>(ptx::clock64() - start);
}

__global__ void empty_kernel() {}
__global__ void empty_kernel_with_opt_in() {}

#define TILES_AND_READS(NAME, MODE, LAYOUT) \
  reinterpret_cast<const void*>(tiles_kernel<BLayout::LAYOUT, Reads<ReadMode::MODE, BLayout::LAYOUT>>),
// Names and order: STREAM_ARMS of gemm/explain/stream.py.
const void* const kernels[] = {
    reinterpret_cast<const void*>(tiles_kernel<BLayout::natural, NoReads>),
    reinterpret_cast<const void*>(tiles_kernel<BLayout::transposed, NoReads>),
    SMEM_VARIANTS(TILES_AND_READS)  //
    reinterpret_cast<const void*>(distinct_kernel),
    reinterpret_cast<const void*>(latency_kernel),
    reinterpret_cast<const void*>(barrier_kernel),
};

}  // namespace

extern "C" {

int stream_kernel_count() { return sizeof(kernels) / sizeof(kernels[0]); }
int stream_ring_bytes() { return RING_BYTES; }
int stream_region_bytes() { return REGION_BYTES; }
int stream_latency_steps() { return LATENCY_STEPS; }
const char* stream_error_string(int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); }

// Sets the opt-in for this much dynamic shared memory and gives the blocks that an SM then holds.
int stream_prepare(int index, int dynamic_bytes, int* resident_blocks) {
  KernelResources found;
  const cudaError_t error = prepare_kernel(kernels[index], layout::THREADS, dynamic_bytes, &found);
  if (error == cudaSuccess) *resident_blocks = found.resident_blocks;
  return answer(error);
}

// The meaning of m, n, k and loops is the kernel's. out: uint32_t[blocks * THREADS].
int stream_launch(int index, int blocks, int dynamic_bytes, const void* a, const void* b, int m, int n, int k,
                  int loops, void* out, void* stream) {
  void* arguments[] = {&a, &b, &m, &n, &k, &loops, &out};
  return answer(cudaLaunchKernel(kernels[index], dim3(blocks), dim3(layout::THREADS), arguments, dynamic_bytes,
                                 static_cast<cudaStream_t>(stream)));
}

// Does a launch with so much dynamic shared memory succeed, without the opt-in and with it?
int stream_opt_in(int dynamic_bytes, int opt_in, void* stream) {
  const void* kernel = reinterpret_cast<const void*>(opt_in ? empty_kernel_with_opt_in : empty_kernel);
  cudaError_t error = cudaSuccess;
  if (opt_in) error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, dynamic_bytes);
  void* arguments[] = {nullptr};
  if (error == cudaSuccess)
    error = cudaLaunchKernel(kernel, dim3(1), dim3(32), arguments, dynamic_bytes, static_cast<cudaStream_t>(stream));
  return answer(error);
}

}  // extern "C"
