// layout.cuh for the host: what micro/layout.py calls through ctypes, so that no address formula is written twice.
#include "layout.cuh"

namespace {
layout::ReadMode mode_of(int mode) { return static_cast<layout::ReadMode>(mode); }
layout::BLayout layout_of(int b_layout) { return static_cast<layout::BLayout>(b_layout); }
void put(int* out, layout::Coord c) { out[0] = c.row, out[1] = c.col; }
}  // namespace

extern "C" {

// Named constants, in the order of micro/layout.py.
void layout_constants(int* out) {
  const int values[] = {layout::BM,          layout::BN,          layout::BK,           layout::WARPS_M,
                        layout::WARPS_N,     layout::WARP_M,      layout::WARP_N,       layout::MMA_M,
                        layout::MMA_N,       layout::MMA_K,       layout::A_TILE_BYTES, layout::B_TILE_BYTES,
                        layout::STAGE_BYTES, layout::CHUNK_BYTES, layout::A_CHUNKS,     layout::B_CHUNKS};
  for (unsigned i = 0; i < sizeof(values) / sizeof(values[0]); ++i) out[i] = values[i];
}

int layout_a_offset(int swizzle, int m, int k) { return layout::a_offset(swizzle, m, k); }
int layout_b_offset(int b_layout, int swizzle, int k, int n) {
  return layout::b_offset(layout_of(b_layout), swizzle, k, n);
}
int layout_swizzle_a(int row, int col) { return layout::swizzle_a(row, col); }
int layout_swizzle_b(int row, int col) { return layout::swizzle_b(row, col); }
int layout_swizzle_bt(int row, int col) { return layout::swizzle_bt(row, col); }

int layout_a_loads(int mode) { return layout::a_loads(mode_of(mode)); }
int layout_b_loads(int mode, int b_layout) { return layout::b_loads(mode_of(mode), layout_of(b_layout)); }
int layout_a_load_bytes(int mode) { return layout::a_load_bytes(mode_of(mode)); }
int layout_b_load_bytes(int mode, int b_layout) { return layout::b_load_bytes(mode_of(mode), layout_of(b_layout)); }

// out[32]: the byte offset that each lane passes.
void layout_a_load_offsets(int mode, int swizzle, int m0, int k0, int load, int* out) {
  for (int lane = 0; lane < 32; ++lane) out[lane] = layout::a_load_offset(mode_of(mode), swizzle, m0, k0, load, lane);
}
void layout_b_load_offsets(int mode, int b_layout, int swizzle, int k0, int n0, int load, int* out) {
  for (int lane = 0; lane < 32; ++lane)
    out[lane] = layout::b_load_offset(mode_of(mode), layout_of(b_layout), swizzle, k0, n0, load, lane);
}

// out[32][2]: (row, column) of the element, of A and B the first of two, that register `reg` of a lane holds.
void layout_a_fragment(int reg, int* out) {
  for (int lane = 0; lane < 32; ++lane) put(out + 2 * lane, layout::a_fragment(lane, reg));
}
void layout_b_fragment(int reg, int* out) {
  for (int lane = 0; lane < 32; ++lane) put(out + 2 * lane, layout::b_fragment(lane, reg));
}
void layout_c_fragment(int reg, int* out) {
  for (int lane = 0; lane < 32; ++lane) put(out + 2 * lane, layout::c_fragment(lane, reg));
}

int layout_a_chunk_offset(int swizzle, int chunk) { return layout::a_chunk_offset(swizzle, chunk); }
int layout_b_chunk_offset(int b_layout, int swizzle, int chunk) {
  return layout::b_chunk_offset(layout_of(b_layout), swizzle, chunk);
}
void layout_a_chunk(int chunk, int* out) { put(out, layout::a_chunk(chunk)); }
void layout_b_chunk(int b_layout, int chunk, int* out) { put(out, layout::b_chunk(layout_of(b_layout), chunk)); }

}  // extern "C"
