// Global -> shared: how do the tiles of one k-tile get into a stage of the ring?
//
// A thread moves two 16-byte chunks of A and two of B per tile. `cp_async` leaves the copy to the hardware and groups
// it; `ld_global` takes the bytes through registers, so its loads are issued before the mma of a tile and its stores
// after them. What depends on the thread is computed once; per tile only the global pointers advance. The trap: the
// second chunk's distance in shared memory is constant only while it leaves the swizzle's row bits alone: asserted.
#pragma once
#include "layout.cuh"
#include "ptx.cuh"

enum class LoadMode { ld_global = 0, cp_async = 1 };

template <typename T, LoadMode LOAD, layout::BLayout B_LAYOUT, bool SWIZZLE>
struct TileSource {
  static constexpr bool NATURAL = B_LAYOUT == layout::BLayout::natural;
  static constexpr int PER_THREAD = layout::A_CHUNKS / layout::THREADS;
  static_assert(PER_THREAD * layout::THREADS == layout::A_CHUNKS && layout::A_CHUNKS == layout::B_CHUNKS,
                "every thread moves the same number of chunks of A and of B");

  const T* a;
  const T* b;
  int n, k;
  uint32_t a_shared, b_shared;
  uint4 a_held[PER_THREAD], b_held[PER_THREAD];  // ld_global only

  static LAYOUT_FN int a_step(int i) {
    return layout::a_chunk_offset(SWIZZLE, i * layout::THREADS) - layout::a_chunk_offset(SWIZZLE, 0);
  }
  static LAYOUT_FN int b_step(int i) {
    return layout::b_chunk_offset(B_LAYOUT, SWIZZLE, i * layout::THREADS) -
           layout::b_chunk_offset(B_LAYOUT, SWIZZLE, 0);
  }
  static LAYOUT_FN bool steps_are_constant() {
    for (int thread = 0; thread < layout::THREADS; ++thread)
      for (int i = 0; i < PER_THREAD; ++i) {
        const int chunk = thread + i * layout::THREADS;
        if (layout::a_chunk_offset(SWIZZLE, chunk) != layout::a_chunk_offset(SWIZZLE, thread) + a_step(i)) return false;
        if (layout::b_chunk_offset(B_LAYOUT, SWIZZLE, chunk) !=
            layout::b_chunk_offset(B_LAYOUT, SWIZZLE, thread) + b_step(i))
          return false;
      }
    return true;
  }

  // a: [m][k]. b: [k][n], or [n][k] where B_LAYOUT is transposed. ring: shared address of stage 0. block: of C.
  __device__ __forceinline__ TileSource(const T* a_matrix, const T* b_matrix, int n, int k, layout::Coord block,
                                        uint32_t ring)
      : n(n), k(k) {
    static_assert(steps_are_constant(), "a chunk's distance from the thread's first chunk depends on the thread");
    const int thread = threadIdx.x;
    const layout::Coord in_a = layout::a_chunk(thread), in_b = layout::b_chunk(B_LAYOUT, thread);
    const int b_row = NATURAL ? in_b.row : block.col * layout::BN + in_b.row;
    const int b_col = NATURAL ? block.col * layout::BN + in_b.col : in_b.col;
    a = a_matrix + static_cast<size_t>(block.row * layout::BM + in_a.row) * k + in_a.col;
    b = b_matrix + static_cast<size_t>(b_row) * (NATURAL ? n : k) + b_col;
    a_shared = ptx::opaque(ring + layout::a_chunk_offset(SWIZZLE, thread));
    b_shared = ptx::opaque(ring + layout::A_TILE_BYTES + layout::b_chunk_offset(B_LAYOUT, SWIZZLE, thread));
  }

  // Chunk i of this thread lies whole rows below chunk 0. A pointer per chunk would cost registers that A1 lacks.
  __device__ __forceinline__ const T* a_chunk(int i) const {
    return a + static_cast<int64_t>(layout::a_chunk(i * layout::THREADS).row) * k;
  }
  __device__ __forceinline__ const T* b_chunk(int i) const {
    return b + static_cast<int64_t>(layout::b_chunk(B_LAYOUT, i * layout::THREADS).row) * (NATURAL ? n : k);
  }
  __device__ __forceinline__ void advance() {
    a += layout::BK;
    b += NATURAL ? static_cast<int64_t>(layout::BK) * n : layout::BK;
  }

  // Start to bring the next tile into the stage that starts stage_bytes after stage 0.
  __device__ __forceinline__ void begin(int stage_bytes) {
#pragma unroll
    for (int i = 0; i < PER_THREAD; ++i) {
      if constexpr (LOAD == LoadMode::cp_async) {
        ptx::cp_async_16(a_shared + stage_bytes + a_step(i), a_chunk(i));
        ptx::cp_async_16(b_shared + stage_bytes + b_step(i), b_chunk(i));
      } else {
        a_held[i] = ptx::ld_global_16(a_chunk(i));
        b_held[i] = ptx::ld_global_16(b_chunk(i));
      }
    }
    advance();
  }

  // What `begin` left to do once its bytes are wanted in shared memory: nothing for cp_async.
  __device__ __forceinline__ void finish(int stage_bytes) const {
    if constexpr (LOAD == LoadMode::ld_global) {
#pragma unroll
      for (int i = 0; i < PER_THREAD; ++i) {
        ptx::st_shared_16(a_shared + stage_bytes + a_step(i), a_held[i]);
        ptx::st_shared_16(b_shared + stage_bytes + b_step(i), b_held[i]);
      }
    }
  }

  // Groups are counted: every tile commits one, past the end an empty one, so that wait<N> always means the same.
  static __device__ __forceinline__ void commit() {
    if constexpr (LOAD == LoadMode::cp_async) ptx::cp_async_commit();
  }
  template <int PENDING>
  static __device__ __forceinline__ void wait() {
    if constexpr (LOAD == LoadMode::cp_async) ptx::cp_async_wait<PENDING>();
  }
};

// Start all stages of an empty ring but one: the first turn of the loop over tiles starts that.
template <int STAGES, typename Source>
__device__ __forceinline__ void fill_ring(Source& source, int tiles) {
#pragma unroll
  for (int stage = 0; stage < STAGES - 1; ++stage) {
    if (stage < tiles) {
      source.begin(stage * layout::STAGE_BYTES);
      source.finish(stage * layout::STAGE_BYTES);
    }
    source.commit();
  }
}
