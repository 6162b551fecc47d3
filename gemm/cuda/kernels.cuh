// The table of kernels: which instantiations does this library hold, and by which parameters are they known?
//
// A translation unit defines GEMM_KERNELS(X), a list of X(variant, element type, load mode, stages, swizzle, epilogue, schedule,
// wait, blocks per SM), and includes this file; its rows join the library's one table when the library is loaded. Variants
// are the tags that SMEM_VARIANTS makes. The trap: the table must live in the library, not in an inline
// function (whose statics the loader shares between two copies of a library), or the A/A twin would run the first copy.
#pragma once
#include <cuda_runtime.h>

#include "gemm.cuh"

struct GemmKernel {
  const char* variant;
  int is_half, read_mode, b_layout, load_mode, stages, swizzle, epilogue, schedule, wait, min_blocks, shared_bytes;
  const void* kernel;
};

void add_kernels(const GemmKernel* first, int count);

namespace {

#define VARIANT_TAG(NAME, MODE, LAYOUT)                   \
  struct NAME {                                           \
    static constexpr const char* name = #NAME;            \
    static constexpr ReadMode read_mode = ReadMode::MODE; \
    static constexpr BLayout b_layout = BLayout::LAYOUT;  \
  };
SMEM_VARIANTS(VARIANT_TAG)
#undef VARIANT_TAG

using bf16 = __nv_bfloat16;
using fp16 = __half;

template <typename V, typename T, LoadMode LOAD, int STAGES, bool SWIZZLE, Epilogue EPILOGUE, Schedule SCHEDULE, Wait WAIT,
          int MIN_BLOCKS>
GemmKernel kernel_row() {
  return {V::name,
          sizeof(T) == sizeof(fp16) && !__is_same(T, bf16),
          static_cast<int>(V::read_mode),
          static_cast<int>(V::b_layout),
          static_cast<int>(LOAD),
          STAGES,
          SWIZZLE,
          static_cast<int>(EPILOGUE),
          static_cast<int>(SCHEDULE),
          static_cast<int>(WAIT),
          MIN_BLOCKS,
          shared_bytes_of(STAGES, EPILOGUE),
          reinterpret_cast<const void*>(
              gemm_kernel<T, V::read_mode, V::b_layout, LOAD, STAGES, SWIZZLE, EPILOGUE, SCHEDULE, WAIT, MIN_BLOCKS>)};
}

#define KERNEL_ROW(VARIANT, TYPE, LOAD, STAGES, SWIZZLE, EPILOGUE, SCHEDULE, WAIT, MIN_BLOCKS)                     \
  kernel_row<VARIANT, TYPE, LoadMode::LOAD, STAGES, SWIZZLE, Epilogue::EPILOGUE, Schedule::SCHEDULE, Wait::WAIT, \
             MIN_BLOCKS>(),

#ifdef GEMM_KERNELS
const GemmKernel kernels[] = {GEMM_KERNELS(KERNEL_ROW)};
const bool added = (add_kernels(kernels, sizeof(kernels) / sizeof(kernels[0])), true);
#endif

}  // namespace
