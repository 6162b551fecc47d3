// What does one shared-memory load cost: its latency, and the rate at which an SM can take it?
//
// One kernel answers both. Shared memory holds an image in which the word at offset p holds p: each load's first
// register is the address of the same chain's next load, so a warp has exactly IN_FLIGHT loads under way and the loop
// holds nothing but loads. One warp with one chain gives latency, 32 warps with several give throughput. The address
// pattern comes from outside as 32 offsets: the bank model judges the very bytes that are read. The trap: any
// instruction between two loads of a chain is timed as latency, so the start of the image is an immediate of the load,
// not an add.
#include <cuda_runtime.h>

#include "chains.cuh"
#include "error.cuh"
#include "ptx.cuh"
#include "resources.cuh"
#include "span.cuh"

namespace {

using namespace chains;

constexpr int IMAGE_BYTES = 8192;
constexpr int INSTRUCTIONS_PER_LOOP = 64;
constexpr int MAX_WARPS = 32;
constexpr uint32_t BAD_BASE = 0xffffffffu;

enum Kind { load = 0, mma = 1, store = 2 };

// False where dynamic shared memory starts above the image: the caller reports it instead of reading something else.
__device__ __forceinline__ bool fill_image(const unsigned char* image) {
  if (ptx::shared_address(shared_bytes) > IMAGE_ADDRESS) return false;
  for (int byte = 16 * threadIdx.x; byte < IMAGE_BYTES; byte += 16 * blockDim.x)
    ptx::st_shared_16(IMAGE_ADDRESS + byte, ptx::ld_global_16(image + byte));
  __syncthreads();
  return true;
}

__device__ __forceinline__ void finish_and_store(WarpSpan& span, uint32_t last, WarpSpan* spans) {
  span.finish(last);
  if (threadIdx.x % 32 == 0) spans[(blockIdx.x * blockDim.x + threadIdx.x) / 32] = span;
}

// sinks: 0 where every chain ends on the address it started from, which it does if every load read the right word.
template <typename Load, int IN_FLIGHT>
__global__ void __launch_bounds__(32 * MAX_WARPS, 1)
    load_kernel(const unsigned char* image, const uint32_t* offsets, int loops, WarpSpan* spans, uint32_t* sinks) {
  const int thread = blockIdx.x * blockDim.x + threadIdx.x;
  if (!fill_image(image)) {
    sinks[thread] = BAD_BASE;
    return;
  }
  const uint32_t start = offsets[threadIdx.x % 32];
  uint32_t chain[IN_FLIGHT];
#pragma unroll
  for (int c = 0; c < IN_FLIGHT; ++c) chain[c] = ptx::opaque(start);
  __syncthreads();

  WarpSpan span;
  span.begin();
#pragma unroll 1
  for (int loop = 0; loop < loops; ++loop) {
#pragma unroll
    for (int i = 0; i < INSTRUCTIONS_PER_LOOP; ++i) chain[i % IN_FLIGHT] = Load::next(chain[i % IN_FLIGHT]);
  }
  uint32_t wrong = 0;
#pragma unroll
  for (int c = 0; c < IN_FLIGHT; ++c) wrong |= chain[c] ^ start;
  finish_and_store(span, wrong, spans);
  sinks[thread] = wrong;
}

// Throughput only: a store returns nothing that a chain could wait for. sinks: 0 where a load finds what was stored.
template <int MATRICES, typename Load>
__global__ void __launch_bounds__(32 * MAX_WARPS, 1)
    store_kernel(const unsigned char* image, const uint32_t* offsets, int loops, WarpSpan* spans, uint32_t* sinks) {
  const int thread = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
  if (!fill_image(image)) {
    sinks[thread] = BAD_BASE;
    return;
  }
  const uint32_t offset = ptx::opaque(offsets[lane]);
  uint32_t r[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) r[i] = ptx::ld_shared_b32(IMAGE_ADDRESS + 4 * (lane + 32 * i));
  __syncthreads();

  WarpSpan span;
  span.begin();
#pragma unroll 1
  for (int loop = 0; loop < loops; ++loop) {
#pragma unroll
    for (int i = 0; i < INSTRUCTIONS_PER_LOOP; ++i) stmatrix<MATRICES>(offset, r);
  }
  const uint32_t wrong = Load::next(offset) ^ r[0];  // in order behind the stores: delivered when they are done
  finish_and_store(span, wrong, spans);
  sinks[thread] = wrong;
}

// image: a[4], b[2] of each lane, as 32 x 6 words. sinks: bits of the first accumulator of chain 0, which started from
// 0. On sm_90 ptxas puts a NOP behind an mma whose successor waits for it, so latency here is that of compiled code.
template <typename T, int IN_FLIGHT>
__global__ void __launch_bounds__(32 * MAX_WARPS, 1)
    mma_kernel(const unsigned char* image, const uint32_t*, int loops, WarpSpan* spans, uint32_t* sinks) {
  const uint32_t* words = reinterpret_cast<const uint32_t*>(image) + threadIdx.x % 32 * 6;
  const uint32_t a[4] = {words[0], words[1], words[2], words[3]}, b[2] = {words[4], words[5]};
  float acc[IN_FLIGHT][4] = {};
#pragma unroll
  for (int c = 1; c < IN_FLIGHT; ++c) acc[c][0] = __uint_as_float(ptx::opaque(0x3f800000u)) * c;
  __syncthreads();

  WarpSpan span;
  span.begin();
#pragma unroll 1
  for (int loop = 0; loop < loops; ++loop) {
#pragma unroll
    for (int i = 0; i < INSTRUCTIONS_PER_LOOP; ++i) ptx::mma_m16n8k16<T>(acc[i % IN_FLIGHT], a, b);
  }
  uint32_t last = 0;
#pragma unroll
  for (int c = 0; c < IN_FLIGHT; ++c)
#pragma unroll
    for (int r = 0; r < 4; ++r) last ^= __float_as_uint(acc[c][r]) + 4 * c + r;
  finish_and_store(span, last, spans);
  sinks[blockIdx.x * blockDim.x + threadIdx.x] = __float_as_uint(acc[0][0]);
}

constexpr int IN_FLIGHT_STEPS = 4;
constexpr int IN_FLIGHT_VALUES[IN_FLIGHT_STEPS] = {1, 2, 4, 8};

struct Instruction {
  const char* name;
  Kind kind;
  int matrices;        // 8x8 tiles of ldmatrix and stmatrix, else 0
  int bytes_per_lane;  // into or out of registers; 0 for mma
  int minimum_arch;
  const void* kernels[IN_FLIGHT_STEPS];  // null where that many in flight means nothing
};

template <typename Load>
Instruction load_of(const char* name, int matrices, int bytes_per_lane) {
  return {name,
          load,
          matrices,
          bytes_per_lane,
          80,
          {reinterpret_cast<const void*>(load_kernel<Load, 1>), reinterpret_cast<const void*>(load_kernel<Load, 2>),
           reinterpret_cast<const void*>(load_kernel<Load, 4>), reinterpret_cast<const void*>(load_kernel<Load, 8>)}};
}
template <typename T>
Instruction mma_of(const char* name) {
  return {name,
          mma,
          0,
          0,
          80,
          {reinterpret_cast<const void*>(mma_kernel<T, 1>), reinterpret_cast<const void*>(mma_kernel<T, 2>),
           reinterpret_cast<const void*>(mma_kernel<T, 4>), reinterpret_cast<const void*>(mma_kernel<T, 8>)}};
}
template <int MATRICES, typename Load>
Instruction store_of(const char* name) {
  return {name, store, MATRICES, 4 * MATRICES, 90, {reinterpret_cast<const void*>(store_kernel<MATRICES, Load>)}};
}

const Instruction instructions[] = {
    load_of<LdB16>("ld.shared.b16", 0, 2),      load_of<LdB32>("ld.shared.b32", 0, 4),
    load_of<LdB64>("ld.shared.b64", 0, 8),      load_of<LdB128>("ld.shared.b128", 0, 16),
    load_of<LdmX1>("ldmatrix.x1", 1, 4),        load_of<LdmX2>("ldmatrix.x2", 2, 8),
    load_of<LdmX4>("ldmatrix.x4", 4, 16),       load_of<LdmX1T>("ldmatrix.x1.trans", 1, 4),
    load_of<LdmX2T>("ldmatrix.x2.trans", 2, 8), load_of<LdmX4T>("ldmatrix.x4.trans", 4, 16),
    mma_of<__nv_bfloat16>("mma.bf16"),          mma_of<__half>("mma.f16"),
    store_of<1, LdmX1>("stmatrix.x1"),          store_of<2, LdmX2>("stmatrix.x2"),
    store_of<4, LdmX4>("stmatrix.x4"),
};
constexpr int instruction_count = sizeof(instructions) / sizeof(instructions[0]);

}  // namespace

extern "C" {

struct InstructionInfo {
  const char* name;
  int kind, matrices, bytes_per_lane, minimum_arch;
};

int instructions_count() { return instruction_count; }
InstructionInfo instructions_info(int index) {
  const Instruction& i = instructions[index];
  return {i.name, i.kind, i.matrices, i.bytes_per_lane, i.minimum_arch};
}
int instructions_in_flight(int step) { return step < IN_FLIGHT_STEPS ? IN_FLIGHT_VALUES[step] : 0; }
int instructions_has_kernel(int index, int step) { return instructions[index].kernels[step] != nullptr; }
int instructions_image_bytes() { return IMAGE_BYTES; }
int instructions_image_address() { return IMAGE_ADDRESS; }
int instructions_per_loop() { return INSTRUCTIONS_PER_LOOP; }
const char* instructions_error_string(int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); }

int instructions_resources(int index, int step, int warps, int shared_bytes_per_block, KernelResources* out) {
  return answer(prepare_kernel(instructions[index].kernels[step], 32 * warps, shared_bytes_per_block, out));
}

// spans: WarpSpan[blocks * warps]; sinks: uint32_t[blocks * warps * 32]. instructions_resources must have been called
// for this kernel and shared size. Each warp runs loops * INSTRUCTIONS_PER_LOOP instructions.
int instructions_launch(int index, int step, int blocks, int warps, int shared_bytes_per_block, int loops,
                        const void* image, const void* offsets, void* spans, void* sinks, void* stream) {
  void* arguments[] = {&image, &offsets, &loops, &spans, &sinks};
  return answer(cudaLaunchKernel(instructions[index].kernels[step], dim3(blocks), dim3(32 * warps), arguments,
                                 shared_bytes_per_block, static_cast<cudaStream_t>(stream)));
}

}  // extern "C"
