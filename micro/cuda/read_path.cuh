// Shared memory -> registers: the one step that differs between the variants.
//
//            A fragment       B in shared memory    B fragment
//   A1       ld.shared.b32 x4 natural               ld.shared.b16 x4 + pack
//   A2       ld.shared.b32 x4 pre-transposed        ld.shared.b32 x2
//   A2L      ldmatrix.x4      pre-transposed        ldmatrix.x2
//   A3       ldmatrix.x4      natural               ldmatrix.x2.trans
//
// What depends on the lane is computed once, before the loop: a swizzled address is a lane's base plus a constant
// wherever the constant leaves the swizzle's row bits alone. `steps_are_constant` proves that for every lane and warp
// at compile time. The trap: a base per k-step costs registers, so only what the swizzle really bends gets one.
#pragma once
#include "layout.cuh"
#include "ptx.cuh"

// The variants: name, how fragments are read, how B lies in shared memory. micro.cu and kernels.cuh expand this list.
#define SMEM_VARIANTS(X)       \
  X(A1, ld_shared, natural)    \
  X(A2, ld_shared, transposed) \
  X(A2L, ldmatrix, transposed) \
  X(A3, ldmatrix, natural)

template <layout::ReadMode MODE, layout::BLayout B_LAYOUT, bool SWIZZLE>
struct ReadPath {
  static constexpr bool LDMATRIX = MODE == layout::ReadMode::ldmatrix;
  static constexpr bool NATURAL = B_LAYOUT == layout::BLayout::natural;

  // Which (k-step, part) pairs of A need a base of their own: the swizzle XORs bits of k, so each 8 of k does.
  static constexpr int A_PARTS = LDMATRIX ? 1 : 2;  // ld.shared: registers 0,1 and registers 2,3
  // Natural B bends n (4 fragments) and, read element by element, the parity of k. Transposed B bends k as A does.
  static constexpr int B_ROWS = NATURAL ? layout::N_FRAGMENTS : layout::K_STEPS;
  static constexpr int B_PARTS = LDMATRIX ? 1 : 2;

  uint32_t a_base[layout::K_STEPS][A_PARTS];
  uint32_t b_base[B_ROWS][B_PARTS];

  static LAYOUT_FN int a_first_load(int part) { return 2 * part; }

  static LAYOUT_FN int a_offset_of(int warp_m, int kstep, int m, int load, int lane) {
    return layout::a_load_offset(MODE, SWIZZLE, warp_m * layout::WARP_M + m * layout::MMA_M, kstep * layout::MMA_K,
                                 load, lane);
  }
  static LAYOUT_FN int b_offset_of(int warp_n, int kstep, int n, int load, int lane) {
    return layout::b_load_offset(MODE, B_LAYOUT, SWIZZLE, kstep * layout::MMA_K,
                                 warp_n * layout::WARP_N + n * layout::MMA_N, load, lane);
  }
  // The constant from a base to the load: what lane 0 of warp 0 would add, the same for every lane.
  static LAYOUT_FN int a_step(int kstep, int m, int load) {
    return a_offset_of(0, kstep, m, load, 0) - a_offset_of(0, kstep, 0, a_first_load(load / 2), 0);
  }
  static LAYOUT_FN int b_base_row(int kstep, int n) { return NATURAL ? n : kstep; }
  // A part's first load has the part's number. Natural: the parity of k. Transposed: the register.
  static LAYOUT_FN int b_base_part(int load) { return NATURAL ? load % 2 : load; }
  static LAYOUT_FN int b_base_offset(int warp_n, int row, int part, int lane) {
    return NATURAL ? b_offset_of(warp_n, 0, row, part, lane) : b_offset_of(warp_n, row, 0, part, lane);
  }
  static LAYOUT_FN int b_step(int kstep, int n, int load) {
    return b_offset_of(0, kstep, n, load, 0) - b_base_offset(0, b_base_row(kstep, n), b_base_part(load), 0);
  }

  static LAYOUT_FN bool steps_are_constant(int lane) {
    for (int kstep = 0; kstep < layout::K_STEPS; ++kstep) {
      for (int warp = 0; warp < layout::WARPS_N; ++warp) {
        for (int f = 0; f < layout::M_FRAGMENTS; ++f)
          for (int load = 0; load < layout::a_loads(MODE); ++load)
            if (a_offset_of(warp % layout::WARPS_M, kstep, f, load, lane) !=
                a_offset_of(warp % layout::WARPS_M, kstep, 0, a_first_load(load / 2), lane) + a_step(kstep, f, load))
              return false;
        for (int f = 0; f < layout::N_FRAGMENTS; ++f)
          for (int load = 0; load < layout::b_loads(MODE, B_LAYOUT); ++load)
            if (b_offset_of(warp, kstep, f, load, lane) !=
                b_base_offset(warp, b_base_row(kstep, f), b_base_part(load), lane) + b_step(kstep, f, load))
              return false;
      }
    }
    return lane == 0 || steps_are_constant(lane - 1);
  }

  // a_tile, b_tile: shared addresses of stage 0.
  __device__ __forceinline__ ReadPath(uint32_t a_tile, uint32_t b_tile, int lane, int warp_m, int warp_n) {
    static_assert(steps_are_constant(31), "a load's distance from its base depends on the lane");
#pragma unroll
    for (int kstep = 0; kstep < layout::K_STEPS; ++kstep)
#pragma unroll
      for (int part = 0; part < A_PARTS; ++part)
        a_base[kstep][part] = ptx::opaque(a_tile + a_offset_of(warp_m, kstep, 0, a_first_load(part), lane));
#pragma unroll
    for (int row = 0; row < B_ROWS; ++row)
#pragma unroll
      for (int part = 0; part < B_PARTS; ++part)
        b_base[row][part] = ptx::opaque(b_tile + b_base_offset(warp_n, row, part, lane));
  }

  // Fragment m of A for the k-step, from the stage that starts stage_bytes after stage 0.
  __device__ __forceinline__ void load_a(uint32_t (&r)[layout::A_REGISTERS], int stage_bytes, int kstep, int m) const {
    if constexpr (LDMATRIX) {
      ptx::ldmatrix_x4(r, a_base[kstep][0] + stage_bytes + a_step(kstep, m, 0));
    } else {
#pragma unroll
      for (int load = 0; load < layout::A_REGISTERS; ++load)
        r[load] = ptx::ld_shared_b32(a_base[kstep][load / 2] + stage_bytes + a_step(kstep, m, load));
    }
  }

  // Fragment n of B for the k-step.
  __device__ __forceinline__ void load_b(uint32_t (&r)[layout::B_REGISTERS], int stage_bytes, int kstep, int n) const {
    const auto address = [&](int load) {
      return b_base[b_base_row(kstep, n)][b_base_part(load)] + stage_bytes + b_step(kstep, n, load);
    };
    if constexpr (LDMATRIX && NATURAL) {
      ptx::ldmatrix_x2_trans(r, address(0));
    } else if constexpr (LDMATRIX) {
      ptx::ldmatrix_x2(r, address(0));
    } else if constexpr (NATURAL) {
#pragma unroll
      for (int reg = 0; reg < layout::B_REGISTERS; ++reg) {
        const uint16_t even = ptx::ld_shared_b16(address(2 * reg));
        const uint16_t odd = ptx::ld_shared_b16(address(2 * reg + 1));
        r[reg] = ptx::pack_b16(even, odd);
      }
    } else {
#pragma unroll
      for (int reg = 0; reg < layout::B_REGISTERS; ++reg) r[reg] = ptx::ld_shared_b32(address(reg));
    }
  }
};
