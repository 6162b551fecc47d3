// The table of kernels: which instantiations does a library hold, and by which parameters are they known?
//
// Each group_*.cu adds one group of kernels for every variant of SMEM_VARIANTS, so ninja compiles the groups side by
// side and a library links only the groups that were asked for. Rows join the library's one table when it is loaded.
// The trap: that table lives in gemm.cu and not in an inline function, whose statics the loader shares between two
// copies of a library: the A/A twin would run the first copy.
#pragma once
#include <cuda_runtime.h>

#include "gemm.cuh"

using bf16 = __nv_bfloat16;
using fp16 = __half;

struct GemmKernel {
  const char* variant;
  const char* dtype;
  int read_mode, b_layout, load_mode, stages, swizzle, epilogue, schedule, wait, min_blocks, shared_bytes;
  const void* kernel;
};

__attribute__((visibility("hidden"))) void add_to_table(const GemmKernel& kernel);

namespace {

template <typename T>
constexpr const char* dtype_name = "";
template <>
constexpr const char* dtype_name<bf16> = "bf16";
template <>
constexpr const char* dtype_name<fp16> = "fp16";

// The defaults are those of the main table.
template <typename V, typename T = bf16, LoadMode LOAD = LoadMode::cp_async, int STAGES = 3, bool SWIZZLE = true,
          Epilogue EPILOGUE = Epilogue::simple, Schedule SCHEDULE = Schedule::plain, Wait WAIT = Wait::counted,
          int MIN_BLOCKS = 2>
void add_kernel() {
  const auto kernel =
      gemm_kernel<T, V::read_mode, V::b_layout, LOAD, STAGES, SWIZZLE, EPILOGUE, SCHEDULE, WAIT, MIN_BLOCKS>;
  add_to_table({V::name, dtype_name<T>, static_cast<int>(V::read_mode), static_cast<int>(V::b_layout),
                static_cast<int>(LOAD), STAGES, SWIZZLE, static_cast<int>(EPILOGUE), static_cast<int>(SCHEDULE),
                static_cast<int>(WAIT), MIN_BLOCKS, shared_bytes_of(STAGES, EPILOGUE),
                reinterpret_cast<const void*>(kernel)});
}

// The grid that every check walks: each STAGES for a type, a load mode and a swizzle.
template <typename T, LoadMode LOAD, bool SWIZZLE>
struct EveryStages {
  template <typename V>
  static void add() {
    add_kernel<V, T, LOAD, 1, SWIZZLE>();
    add_kernel<V, T, LOAD, 2, SWIZZLE>();
    add_kernel<V, T, LOAD, 3, SWIZZLE>();
    add_kernel<V, T, LOAD, 4, SWIZZLE>();
  }
};

// One step away from the main table in a single direction.
struct Departures {
  template <typename V>
  static void add() {
    constexpr LoadMode LOAD = LoadMode::cp_async;
    add_kernel<V, bf16, LOAD, 3, true, Epilogue::staged>();
    add_kernel<V, bf16, LOAD, 3, true, Epilogue::simple, Schedule::pipelined>();
    add_kernel<V, bf16, LOAD, 3, true, Epilogue::simple, Schedule::plain, Wait::all>();
    add_kernel<V, bf16, LOAD, 3, true, Epilogue::simple, Schedule::plain, Wait::counted, 1>();
    add_kernel<V, bf16, LOAD, 3, true, Epilogue::simple, Schedule::pipelined, Wait::counted, 1>();
  }
};

#define VARIANT_TAG(NAME, MODE, LAYOUT)                   \
  struct NAME {                                           \
    static constexpr const char* name = #NAME;            \
    static constexpr ReadMode read_mode = ReadMode::MODE; \
    static constexpr BLayout b_layout = BLayout::LAYOUT;  \
  };
SMEM_VARIANTS(VARIANT_TAG)

#define ADD_VARIANT(NAME, MODE, LAYOUT) Group::template add<NAME>();
template <typename Group>
bool add_for_every_variant() {
  SMEM_VARIANTS(ADD_VARIANT)
  return true;
}

}  // namespace
