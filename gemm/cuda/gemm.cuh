// C = A * B on the read paths of micro/cuda/read_path.cuh: one kernel template, all but the read path held equal.
//
// Block tile 128 x 128 x 32, 8 warps as 2 x 4, a ring of STAGES tiles. Per tile: wait for the group that carries it,
// barrier, start the load that reuses the stage just freed, multiply. The tile loop is unrolled by STAGES, so a stage
// is an immediate in every address. The traps: wait_group counts groups, not tiles (STAGES - 2 may be pending); one
// stage has no such group and needs its own order; every accumulator must see its k-steps in the same order in every
// variant, or outputs are not equal to the bit.
#pragma once
#include "epilogue.cuh"
#include "fragments.cuh"
#include "raster.cuh"
#include "read_path.cuh"
#include "tile_source.cuh"

// plain: load the fragments of a k-step, then multiply. pipelined: those of the next k-step arrive under the mma.
enum class Schedule { plain = 0, pipelined = 1 };
// counted: STAGES - 2 groups stay in flight. all: wait_group<0>, the mistake whose price is one of the questions.
enum class Wait { counted = 0, all = 1 };

// Builds that must fail the correctness gate exist only under this define.
#ifndef GEMM_BREAK
#define GEMM_BREAK 0
#endif
constexpr bool BREAK_READS_UNSWIZZLED = GEMM_BREAK == 1, BREAK_SWAPS_REGISTERS = GEMM_BREAK == 2,
               BREAK_SKIPS_LAST_TILE = GEMM_BREAK == 3;

namespace {

using layout::BLayout;
using layout::ReadMode;

extern __shared__ __align__(128) unsigned char shared_bytes[];

constexpr int shared_bytes_of(int stages, Epilogue epilogue) {
  const int ring = stages * layout::STAGE_BYTES;
  return epilogue == Epilogue::staged && C_TILE_BYTES > ring ? C_TILE_BYTES : ring;
}

// The read path, and on it the mistakes of builds that must fail.
template <ReadMode MODE, BLayout B_LAYOUT, bool SWIZZLE>
struct GemmReadPath : ReadPath<MODE, B_LAYOUT, SWIZZLE && !BREAK_READS_UNSWIZZLED> {
  using Right = ReadPath<MODE, B_LAYOUT, SWIZZLE && !BREAK_READS_UNSWIZZLED>;
  using Right::Right;

  __device__ __forceinline__ void load_a(uint32_t (&r)[layout::A_REGISTERS], int stage_bytes, int kstep, int m) const {
    Right::load_a(r, stage_bytes, kstep, m);
    if constexpr (BREAK_SWAPS_REGISTERS) {
      const uint32_t first = r[1];
      r[1] = r[2];
      r[2] = first;
    }
  }
};

template <typename T, typename Path>
__device__ __forceinline__ void multiply_tile(Accumulators& acc, const Path& path, int stage_bytes) {
#pragma unroll
  for (int kstep = 0; kstep < layout::K_STEPS; ++kstep) {
    Fragments f;
    load_fragments(f, path, stage_bytes, kstep);
    multiply<T>(acc, f);
  }
}

template <typename T, typename Path, typename Source>
__device__ __forceinline__ void multiply_one_stage(Accumulators& acc, const Path& path, Source& source, int tiles) {
#pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile) {
    source.begin(0);
    source.commit();
    source.finish(0);
    source.template wait<0>();
    __syncthreads();
    multiply_tile<T>(acc, path, 0);
    __syncthreads();
  }
}

template <typename T, int STAGES, int PENDING, typename Path, typename Source>
__device__ __forceinline__ void multiply_plain(Accumulators& acc, const Path& path, Source& source, int tiles) {
  fill_ring<STAGES>(source, tiles);
#pragma unroll 1
  for (int first = 0; first < tiles; first += STAGES) {
#pragma unroll
    for (int stage = 0; stage < STAGES; ++stage) {
      const int tile = first + stage;
      if (tile >= tiles) break;
      // The barrier says that every thread's part of this tile is there, and that nobody still reads the freed stage.
      source.template wait<PENDING>();
      __syncthreads();
      const int freed_bytes = (stage + STAGES - 1) % STAGES * layout::STAGE_BYTES;
      const bool more = tile + STAGES - 1 < tiles;
      if (more) source.begin(freed_bytes);
      source.commit();
      multiply_tile<T>(acc, path, stage * layout::STAGE_BYTES);
      if (more) source.finish(freed_bytes);
    }
  }
}

// A rolls: fragment m of the next k-step is loaded into the registers that the four mma of row m have just read. B,
// which every row reads, has two sets. The tile's barrier sits before its last k-step, which is in registers by then.
template <typename T, int STAGES, int PENDING, typename Path, typename Source>
__device__ __forceinline__ void multiply_pipelined(Accumulators& acc, const Path& path, Source& source, int tiles) {
  uint32_t a[layout::M_FRAGMENTS][layout::A_REGISTERS], b[2][layout::N_FRAGMENTS][layout::B_REGISTERS];
  static_assert(layout::K_STEPS % 2 == 0, "the set of B registers must be the same at every tile's first k-step");
  static_assert(layout::M_FRAGMENTS == layout::N_FRAGMENTS, "one fragment of A and one of B are loaded per row of mma");

  fill_ring<STAGES>(source, tiles);
  source.template wait<PENDING>();
  __syncthreads();
#pragma unroll
  for (int f = 0; f < layout::M_FRAGMENTS; ++f) {
    path.load_a(a[f], 0, 0, f);
    path.load_b(b[0][f], 0, 0, f);
  }
#pragma unroll 1
  for (int first = 0; first < tiles; first += STAGES) {
#pragma unroll
    for (int stage = 0; stage < STAGES; ++stage) {
      const int tile = first + stage;
      if (tile >= tiles) break;
      const int freed_bytes = (stage + STAGES - 1) % STAGES * layout::STAGE_BYTES;
      const bool more = tile + STAGES - 1 < tiles;
      if (more) source.begin(freed_bytes);
      source.commit();
#pragma unroll
      for (int kstep = 0; kstep < layout::K_STEPS; ++kstep) {
        const bool last = kstep == layout::K_STEPS - 1;
        if (last) {
          if (more) source.finish(freed_bytes);
          source.template wait<PENDING>();
          __syncthreads();
        }
        const int next_bytes = (last ? (stage + 1) % STAGES : stage) * layout::STAGE_BYTES;
        const int next_kstep = last ? 0 : kstep + 1;
#pragma unroll
        for (int m = 0; m < layout::M_FRAGMENTS; ++m) {
          // Past the last tile this reads a stage whose bytes nobody multiplies.
          path.load_b(b[(kstep + 1) % 2][m], next_bytes, next_kstep, m);
#pragma unroll
          for (int n = 0; n < layout::N_FRAGMENTS; ++n) ptx::mma_m16n8k16<T>(acc[m][n], a[m], b[kstep % 2][n]);
          path.load_a(a[m], next_bytes, next_kstep, m);
        }
      }
    }
  }
}

// a: [m][k]; b: [k][n], or [n][k] where B_LAYOUT is transposed; c: [m][n]; all row-major, 16-byte aligned. m and n are
// multiples of 128 and k of 32, all positive. Grid: (m / 128) * (n / 128) blocks.
template <typename T, ReadMode READ_MODE, BLayout B_LAYOUT, LoadMode LOAD_MODE, int STAGES, bool SWIZZLE,
          Epilogue EPILOGUE, Schedule SCHEDULE, Wait WAIT, int MIN_BLOCKS>
__global__ void __launch_bounds__(layout::THREADS, MIN_BLOCKS)
    gemm_kernel(const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ c, int m, int n, int k) {
  static_assert(STAGES > 1 || SCHEDULE == Schedule::plain, "one stage has nothing to load under the mma");
  using Source = TileSource<T, LOAD_MODE, B_LAYOUT, SWIZZLE>;
  using Path = GemmReadPath<READ_MODE, B_LAYOUT, SWIZZLE>;

  const uint32_t ring = ptx::shared_address(shared_bytes);
  const layout::Coord block = raster::block_of(blockIdx.x, m / layout::BM, n / layout::BN);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int warp_m = warp / layout::WARPS_N, warp_n = warp % layout::WARPS_N;
  const int tiles = k / layout::BK - (BREAK_SKIPS_LAST_TILE ? 1 : 0);

  Accumulators acc = {};
  {
    Source source(a, b, n, k, block, ring);
    const Path path(ring, ring + layout::A_TILE_BYTES, lane, warp_m, warp_n);
    constexpr int PENDING = WAIT == Wait::all || STAGES == 1 ? 0 : STAGES - 2;
    if constexpr (STAGES == 1) {
      multiply_one_stage<T>(acc, path, source, tiles);
    } else if constexpr (SCHEDULE == Schedule::plain) {
      multiply_plain<T, STAGES, PENDING>(acc, path, source, tiles);
    } else {
      multiply_pipelined<T, STAGES, PENDING>(acc, path, source, tiles);
    }
  }
  T* corner = c + static_cast<size_t>(block.row) * layout::BM * n + static_cast<size_t>(block.col) * layout::BN;
  if constexpr (EPILOGUE == Epilogue::simple) {
    store_simple(corner, n, acc, lane, warp_m, warp_n);
  } else {
    store_staged(corner, n, acc, ring, lane, warp_m, warp_n);
  }
}

}  // namespace
