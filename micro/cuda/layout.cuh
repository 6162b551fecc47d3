// Where does every element of a tile live in shared memory, and which address does each lane pass to each load?
//
// Pure constexpr functions of lane and index, the same for host and device, with no include: the kernels, the bank
// model, the static assertions and the pictures all call these. Offsets are in bytes from the start of the tile. The
// trap: a reader that forgets the swizzle of the writer reads other data of the same shape, and no fault tells.
#pragma once

#if defined(__CUDACC__)
#define LAYOUT_FN __host__ __device__ __forceinline__ constexpr
#else
#define LAYOUT_FN inline constexpr
#endif

namespace layout {

// Block tile, warp grid and mma shape. One warp computes 64 x 32 of the 128 x 128 block tile.
constexpr int BM = 128, BN = 128, BK = 32;
constexpr int WARPS_M = 2, WARPS_N = 4, WARPS = WARPS_M * WARPS_N, THREADS = 32 * WARPS;
constexpr int WARP_M = BM / WARPS_M, WARP_N = BN / WARPS_N;
constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 16;
constexpr int M_FRAGMENTS = WARP_M / MMA_M, N_FRAGMENTS = WARP_N / MMA_N, K_STEPS = BK / MMA_K;
constexpr int MMA_PER_KSTEP = M_FRAGMENTS * N_FRAGMENTS;
constexpr int A_REGISTERS = 4, B_REGISTERS = 2, C_REGISTERS = 4;

constexpr int ELEMENT_BYTES = 2;
constexpr int A_PITCH_BYTES = BK * ELEMENT_BYTES;   // As[BM][BK]
constexpr int B_PITCH_BYTES = BN * ELEMENT_BYTES;   // Bs[BK][BN], natural
constexpr int BT_PITCH_BYTES = BK * ELEMENT_BYTES;  // BsT[BN][BK], pre-transposed
constexpr int A_TILE_BYTES = BM * A_PITCH_BYTES;
constexpr int B_TILE_BYTES = BK * B_PITCH_BYTES;
constexpr int STAGE_BYTES = A_TILE_BYTES + B_TILE_BYTES;  // B follows A inside a stage
constexpr int CHUNK_BYTES = 16, CHUNK_ELEMENTS = CHUNK_BYTES / ELEMENT_BYTES;

enum class ReadMode { ld_shared = 0, ldmatrix = 1 };
enum class BLayout { natural = 0, transposed = 1 };

struct Coord {
  int row, col;
};

// Swizzles, in elements: the column of a 16-byte chunk is XORed with bits of the row.
//
//   A and B transposed: pitch 64 bytes, two rows span the 32 banks.  chunk bits [1:0] ^= row bits [2:1]
//   B natural:          pitch 256 bytes, each row spans them twice.  chunk bits [2:0] ^= row bits [2:0]
LAYOUT_FN int swizzle_a(int row, int col) { return col ^ (((row >> 1) & 3) << 3); }
LAYOUT_FN int swizzle_b(int row, int col) { return col ^ ((row & 7) << 3); }
LAYOUT_FN int swizzle_bt(int row, int col) { return swizzle_a(row, col); }

LAYOUT_FN int a_offset(bool swizzle, int m, int k) {
  return m * A_PITCH_BYTES + (swizzle ? swizzle_a(m, k) : k) * ELEMENT_BYTES;
}
LAYOUT_FN int b_offset(BLayout b_layout, bool swizzle, int k, int n) {
  return b_layout == BLayout::natural ? k * B_PITCH_BYTES + (swizzle ? swizzle_b(k, n) : n) * ELEMENT_BYTES
                                      : n * BT_PITCH_BYTES + (swizzle ? swizzle_bt(n, k) : k) * ELEMENT_BYTES;
}

// The fragment map of mma.m16n8k16 (PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type"):
// register r of a lane holds the element returned here and, of A and B, its neighbour in k.
LAYOUT_FN Coord a_fragment(int lane, int reg) { return {lane / 4 + 8 * (reg & 1), 2 * (lane % 4) + 8 * (reg >> 1)}; }
LAYOUT_FN Coord b_fragment(int lane, int reg) { return {2 * (lane % 4) + 8 * reg, lane / 4}; }
LAYOUT_FN Coord c_fragment(int lane, int reg) { return {lane / 4 + 8 * (reg >> 1), 2 * (lane % 4) + (reg & 1)}; }

// Loads that one fragment takes, and the bytes that a lane's address stands for (ldmatrix: one 16-byte row).
LAYOUT_FN int a_loads(ReadMode mode) { return mode == ReadMode::ldmatrix ? 1 : 4; }
LAYOUT_FN int b_loads(ReadMode mode, BLayout b_layout) {
  return mode == ReadMode::ldmatrix ? 1 : b_layout == BLayout::natural ? 4 : 2;
}
LAYOUT_FN int a_load_bytes(ReadMode mode) { return mode == ReadMode::ldmatrix ? 16 : 4; }
LAYOUT_FN int b_load_bytes(ReadMode mode, BLayout b_layout) {
  return mode == ReadMode::ldmatrix ? 16 : b_layout == BLayout::natural ? 2 : 4;
}

// The element whose address `lane` passes to load number `load` of the A fragment at (m0, k0).
// ldmatrix.x4: lanes 8i..8i+7 address the rows of 8x8 tile i, which is register i of the fragment.
LAYOUT_FN Coord a_load_coord(ReadMode mode, int m0, int k0, int load, int lane) {
  if (mode == ReadMode::ldmatrix) return {m0 + lane % 16, k0 + lane / 16 * 8};
  const Coord f = a_fragment(lane, load);
  return {m0 + f.row, k0 + f.col};
}
LAYOUT_FN int a_load_offset(ReadMode mode, bool swizzle, int m0, int k0, int load, int lane) {
  const Coord c = a_load_coord(mode, m0, k0, load, lane);
  return a_offset(swizzle, c.row, c.col);
}

// The same for the B fragment at (k0, n0), as (k, n). ldmatrix.x2 ignores the addresses of lanes 16..31; they repeat
// those of lanes 0..15 so that they stay inside the tile. ld.shared from natural B takes one load an element: registers
// are packed from loads (0, 1) and (2, 3).
LAYOUT_FN Coord b_load_coord(ReadMode mode, BLayout b_layout, int k0, int n0, int load, int lane) {
  if (mode == ReadMode::ldmatrix) {
    return b_layout == BLayout::natural ? Coord{k0 + lane % 16, n0} : Coord{k0 + lane / 8 % 2 * 8, n0 + lane % 8};
  }
  const int reg = b_layout == BLayout::natural ? load / 2 : load;
  const int second = b_layout == BLayout::natural ? load % 2 : 0;
  const Coord f = b_fragment(lane, reg);
  return {k0 + f.row + second, n0 + f.col};
}
LAYOUT_FN int b_load_offset(ReadMode mode, BLayout b_layout, bool swizzle, int k0, int n0, int load, int lane) {
  const Coord c = b_load_coord(mode, b_layout, k0, n0, load, lane);
  return b_offset(b_layout, swizzle, c.row, c.col);
}

// Global -> shared: a tile is 512 chunks of 16 bytes; chunk c of A starts at this element (row m, column k).
// B natural gives (k, n), B transposed (n, k): row and column of the global matrix that holds it.
constexpr int A_CHUNKS = A_TILE_BYTES / CHUNK_BYTES, B_CHUNKS = B_TILE_BYTES / CHUNK_BYTES;
LAYOUT_FN Coord a_chunk(int chunk) {
  return {chunk / (BK / CHUNK_ELEMENTS), chunk % (BK / CHUNK_ELEMENTS) * CHUNK_ELEMENTS};
}
LAYOUT_FN Coord b_chunk(BLayout b_layout, int chunk) {
  return b_layout == BLayout::natural
             ? Coord{chunk / (BN / CHUNK_ELEMENTS), chunk % (BN / CHUNK_ELEMENTS) * CHUNK_ELEMENTS}
             : a_chunk(chunk);
}
LAYOUT_FN int a_chunk_offset(bool swizzle, int chunk) {
  const Coord c = a_chunk(chunk);
  return a_offset(swizzle, c.row, c.col);
}
LAYOUT_FN int b_chunk_offset(BLayout b_layout, bool swizzle, int chunk) {
  const Coord c = b_chunk(b_layout, chunk);
  return b_layout == BLayout::natural ? b_offset(b_layout, swizzle, c.row, c.col)
                                      : b_offset(b_layout, swizzle, c.col, c.row);
}

}  // namespace layout
