// Registers -> C: each lane writes its own fragment (simple), or the tile goes through shared memory first (staged).
//
// simple: four lanes write 16 adjacent bytes of a row, 8 rows a store. staged: the block's C tile is written to shared
// memory with the swizzle of natural B, which has the same pitch, and leaves it in 16-byte stores, 256 adjacent bytes a
// row. The trap: the staged tile overwrites the ring, so every warp must be past its last fragment load.
#pragma once
#include "fragments.cuh"
#include "layout.cuh"
#include "ptx.cuh"

enum class Epilogue { simple = 0, staged = 1 };

constexpr int C_TILE_BYTES = layout::BM * layout::BN * layout::ELEMENT_BYTES;

__device__ __forceinline__ uint32_t two_of(float low, float high, __nv_bfloat16) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
__device__ __forceinline__ uint32_t two_of(float low, float high, __half) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

// A lane's pairs lie in rows 8 apart: one pointer walks down them, since an address per row would cost the registers
// that the main loop needs.
constexpr int ROW_STEP = layout::MMA_M / 2, ROWS_PER_LANE = layout::WARP_M / ROW_STEP;
static_assert(layout::c_fragment(0, 2).row == ROW_STEP && layout::c_fragment(0, 2).col == layout::c_fragment(0, 0).col,
              "registers 2 and 3 of C lie one row step below registers 0 and 1");

// Where this lane's first pair lies in the block's C tile.
__device__ __forceinline__ layout::Coord first_pair(int lane, int warp_m, int warp_n) {
  const layout::Coord f = layout::c_fragment(lane, 0);
  return {warp_m * layout::WARP_M + f.row, warp_n * layout::WARP_N + f.col};
}

template <typename T>
__device__ __forceinline__ uint32_t pair_of(const Accumulators& acc, int row_step, int n) {
  const float (&fragment)[layout::C_REGISTERS] = acc[row_step / 2][n];
  return two_of(fragment[row_step % 2 * 2], fragment[row_step % 2 * 2 + 1], T{});
}

// c: the block's corner of C, row-major with n columns.
template <typename T>
__device__ __forceinline__ void store_simple(T* c, int n, const Accumulators& acc, int lane, int warp_m, int warp_n) {
  const layout::Coord first = first_pair(lane, warp_m, warp_n);
  T* row = c + static_cast<size_t>(first.row) * n + first.col;
#pragma unroll
  for (int step = 0; step < ROWS_PER_LANE; ++step, row += static_cast<size_t>(ROW_STEP) * n)
#pragma unroll
    for (int f = 0; f < layout::N_FRAGMENTS; ++f)
      *reinterpret_cast<uint32_t*>(row + f * layout::MMA_N) = pair_of<T>(acc, step, f);
}

template <typename T>
__device__ __forceinline__ void store_staged(T* c, int n, const Accumulators& acc, uint32_t tile, int lane, int warp_m,
                                             int warp_n) {
  constexpr layout::BLayout LIKE_B = layout::BLayout::natural;
  static_assert(layout::B_PITCH_BYTES == layout::BN * layout::ELEMENT_BYTES, "a row of C is as long as a row of B");
  __syncthreads();
  const layout::Coord at = first_pair(lane, warp_m, warp_n);
#pragma unroll
  for (int step = 0; step < ROWS_PER_LANE; ++step)
#pragma unroll
    for (int f = 0; f < layout::N_FRAGMENTS; ++f)
      ptx::st_shared_b32(tile + layout::b_offset(LIKE_B, true, at.row + step * ROW_STEP, at.col + f * layout::MMA_N),
                         pair_of<T>(acc, step, f));
  __syncthreads();
#pragma unroll
  for (int first = 0; first < C_TILE_BYTES / layout::CHUNK_BYTES; first += layout::THREADS) {
    const int chunk = first + threadIdx.x;
    const layout::Coord at = layout::b_chunk(LIKE_B, chunk);
    *reinterpret_cast<uint4*>(c + static_cast<size_t>(at.row) * n + at.col) =
        ptx::ld_shared_16(tile + layout::b_chunk_offset(LIKE_B, true, chunk));
  }
}
