// What does an instruction cost while mma follow each other without a gap, and what do loads and cp.async cost each
// other?
//
// One block of 16 warps an SM. A pass of a warp is COPIES cp.async of 512 bytes, N instructions of one kind and 16 mma
// of independent accumulators; nothing in it waits for anything else in it, and no block barrier is in the loop. What
// they add to the time of the mma alone is their cost. The traps, each seen: ptxas merges equal ldmatrix of memory that
// nobody writes (hence a warp barrier a pass, distinct addresses within one); it drops a plain ld.shared that nobody
// uses (hence .volatile; what ldmatrix brings is an operand of the next pass); of two cp.async under way to one place
// the later to land stays (hence a ring of as many places as groups); and it sets three void loads (@!PT LDS RZ, [RZ])
// in front of the first cp.async after a barrier, here as in a GEMM: a second one tells what one alone costs.
#include <cuda_runtime.h>

#include <cstdio>

#include "error.cuh"
#include "ptx.cuh"
#include "resources.cuh"
#include "span.cuh"

namespace {

constexpr int WARPS = 16, THREADS = 32 * WARPS;
constexpr int PASSES_PER_LOOP = 4, MMAS = 16;
constexpr int WARP_BYTES = 512;                         // of the image, from one warp's first word to the next one's
constexpr int IMAGE_BYTES = 2 * WARPS * WARP_BYTES;     // a warp reads those behind its own, too: up to 16 ldmatrix
constexpr int COPY_BYTES = 512, REGION_BYTES = 131072;  // a warp walks its region round and round, all of it in L2
constexpr int HELD = 24;                                // registers that take turns as destination
constexpr int STORED = WARP_BYTES / 128;                // words of a lane that stores write
constexpr int NO_COPIES = -1;                           // 0: a group is committed and waited for, but empty

enum Kind { none, ld_b32, ld_b16, ldm_x4, ldm_x2, ldm_x2_trans, st_b32, prmt };
const char* const kind_names[] = {"none",        "ld.shared.b32",     "ld.shared.b16", "ldmatrix.x4",
                                  "ldmatrix.x2", "ldmatrix.x2.trans", "st.shared.b32", "prmt"};

extern __shared__ __align__(128) unsigned char shared_bytes[];

__device__ __forceinline__ uint32_t ld_volatile_b32(uint32_t address) {
  uint32_t value;
  asm volatile("ld.volatile.shared.b32 %0, [%1];" : "=r"(value) : "r"(address));
  return value;
}
__device__ __forceinline__ uint32_t ld_volatile_b16(uint32_t address) {
  uint32_t value;
  asm volatile("ld.volatile.shared.b16 %0, [%1];" : "=r"(value) : "r"(address));
  return value;
}
__device__ __forceinline__ void pack_high(uint32_t& value, uint32_t high) {
  asm volatile("prmt.b32 %0, %0, %1, 0x5410;" : "+r"(value) : "r"(high));
}

// The N instructions of a pass and what they need. Addresses are free of conflicts, those of loads distinct within a
// pass, and all but the first an immediate.
template <Kind KIND, int N, bool WITH_MMA>
struct Work {
  static constexpr bool X4 = KIND == ldm_x4, X2 = KIND == ldm_x2 || KIND == ldm_x2_trans;
  static_assert(WITH_MMA || !X2, "nobody would use what they bring");
  // Two fixed fragments each, or those that ldmatrix bring; with more than two, some arms spill.
  static constexpr int A_SETS = X4 ? N : 2, B_SETS = X2 ? N : 2;
  static constexpr int WORDS = X4 || X2 || KIND == none ? 1 : KIND == st_b32 ? STORED : N < HELD ? N : HELD;
  uint32_t address, high, a[A_SETS][4], b[B_SETS][2], words[WORDS];

  __device__ __forceinline__ Work(uint32_t image, int warp, int lane) {
    const uint32_t first = image + warp * WARP_BYTES + lane * 4;
    address = ptx::opaque(X4 || X2 ? first + lane * 12 : first);
    high = ptx::ld_shared_b32(first);
#pragma unroll
    for (int w = 0; w < WORDS; ++w) words[w] = X4 || X2 || KIND == none ? 0 : ptx::ld_shared_b32(first + (w + 4) * 128);
#pragma unroll
    for (int set = 0; set < A_SETS; ++set)
#pragma unroll
      for (int r = 0; r < 4; ++r) a[set][r] = ptx::ld_shared_b32(first + set * WARP_BYTES + r * 128);
#pragma unroll
    for (int set = 0; set < B_SETS; ++set) {
      if constexpr (X2) {
        load(b[set], set);
      } else {
#pragma unroll
        for (int r = 0; r < 2; ++r) b[set][r] = ptx::ld_shared_b32(first + set * WARP_BYTES + r * 128);
      }
    }
  }

  __device__ __forceinline__ void load(uint32_t (&r)[2], int i) const {
    if constexpr (KIND == ldm_x2) ptx::ldmatrix_x2(r, address + i * WARP_BYTES);
    if constexpr (KIND == ldm_x2_trans) ptx::ldmatrix_x2_trans(r, address + i * WARP_BYTES);
  }

  __device__ __forceinline__ void issue(int i) {
    uint32_t& word = words[i % WORDS];
    if constexpr (KIND == ld_b32) word = ld_volatile_b32(address + i * 128);
    if constexpr (KIND == ld_b16) word = ld_volatile_b16(address + i * 128);
    if constexpr (KIND == st_b32) ptx::st_shared_b32(address + i % STORED * 128, word);
    if constexpr (KIND == prmt) pack_high(word, high);
    if constexpr (X4) ptx::ldmatrix_x4(a[i % A_SETS], address + i * WARP_BYTES);
    if constexpr (X2) load(b[i % B_SETS], i);
    // Without mma nobody uses what they bring; a sum, since an xor over an even number of passes is 0.
    if constexpr (X4 && !WITH_MMA)
      words[0] += a[i % A_SETS][0] + a[i % A_SETS][1] + a[i % A_SETS][2] + a[i % A_SETS][3];
  }

  // Neighbours share a set that is loaded anew, so that its load can follow its last use at once.
  __device__ __forceinline__ void multiply(float (&c)[4], int m) const {
    ptx::mma_m16n8k16<__nv_bfloat16>(c, a[X4 ? m * A_SETS / MMAS : m % A_SETS], b[X2 ? m * B_SETS / MMAS : m % B_SETS]);
  }

  // What the loop left behind: the words stored, or those in registers.
  __device__ __forceinline__ uint32_t fold() const {
    uint32_t sum = 0;
#pragma unroll
    for (int w = 0; w < WORDS; ++w)
      sum = sum * 31 + (KIND == st_b32 ? ptx::ld_shared_b32(address + w * 128) : words[w]);
    return sum;
  }
};

// image: IMAGE_BYTES of finite bf16. source: WARPS * REGION_BYTES. sinks: [3][blocks * THREADS]: the sum of a thread's
// accumulators, which started from 0, 1, ... 15 and zeros; the fold of what its instructions left behind; the fold of
// what its copies brought.
template <Kind KIND, int N, bool WITH_MMA, int COPIES>
__global__ void __launch_bounds__(THREADS, 1) contention_kernel(const unsigned char* image, const unsigned char* source,
                                                                int loops, WarpSpan* spans, uint32_t* sinks) {
  constexpr int PLACES = COPIES > 0 ? PASSES_PER_LOOP * COPIES : 0;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const uint32_t shared = ptx::shared_address(shared_bytes);
  for (int byte = 16 * threadIdx.x; byte < IMAGE_BYTES; byte += 16 * THREADS)
    ptx::st_shared_16(shared + byte, ptx::ld_global_16(image + byte));
  __syncthreads();
  Work<KIND, N, WITH_MMA> work(shared, warp, lane);
  const uint32_t ring = ptx::opaque(shared + IMAGE_BYTES + warp * PLACES * COPY_BYTES + lane * 16);
  source += static_cast<size_t>(warp) * REGION_BYTES + lane * 16;
  float acc[MMAS][4] = {};
#pragma unroll
  for (int m = 1; m < MMAS; ++m) acc[m][0] = __uint_as_float(ptx::opaque(0x3f800000u)) * m;  // no two may be merged
  __syncthreads();

  WarpSpan span;
  span.begin();
#pragma unroll 1
  for (int loop = 0; loop < loops; ++loop) {
    const unsigned char* from = source + loop * PLACES * COPY_BYTES % REGION_BYTES;
#pragma unroll
    for (int pass = 0; pass < PASSES_PER_LOOP; ++pass) {
      __syncwarp();
#pragma unroll
      for (int i = pass * COPIES; i < (pass + 1) * COPIES; ++i)
        ptx::cp_async_16(ring + i * COPY_BYTES, from + i * COPY_BYTES);
      if constexpr (COPIES != NO_COPIES) ptx::cp_async_commit();
#pragma unroll
      for (int m = 0; m < MMAS; ++m) {
        if constexpr (WITH_MMA) work.multiply(acc[m], m);
#pragma unroll
        for (int i = N * m / MMAS; i < N * (m + 1) / MMAS; ++i) work.issue(i);
      }
      if constexpr (COPIES != NO_COPIES) ptx::cp_async_wait<PASSES_PER_LOOP - 1>();
    }
  }
  float sum = 0;
#pragma unroll
  for (int m = 0; m < MMAS; ++m)
#pragma unroll
    for (int r = 0; r < 4; ++r) sum += acc[m][r];
  const uint32_t left = work.fold();
  // The last copies are not waited for: they belong to passes that have ended, and their latency is no pass's cost.
  span.finish(__float_as_uint(sum) ^ left);
  ptx::cp_async_wait<0>();
  uint32_t brought = 0;
#pragma unroll
  for (int i = 0; i < PLACES; ++i) {
    const uint4 v = ptx::ld_shared_16(ring + i * COPY_BYTES);
    brought = (((brought * 31 + v.x) * 31 + v.y) * 31 + v.z) * 31 + v.w;
  }
  if (lane == 0) spans[blockIdx.x * WARPS + warp] = span;
  const int thread = blockIdx.x * THREADS + threadIdx.x, threads = gridDim.x * THREADS;
  sinks[thread] = __float_as_uint(sum);
  sinks[threads + thread] = left;
  sinks[2 * threads + thread] = brought;
}

struct Arm {
  char name[64];
  Kind kind;
  int instructions, mmas, copies, shared_bytes;
  const void* kernel;
};

template <Kind KIND, int N, bool WITH_MMA, int COPIES = NO_COPIES>
Arm arm() {
  const void* kernel = reinterpret_cast<const void*>(contention_kernel<KIND, N, WITH_MMA, COPIES>);
  constexpr int RING_BYTES = COPIES > 0 ? WARPS * PASSES_PER_LOOP * COPIES * COPY_BYTES : 0;
  Arm made = {"", KIND, N, WITH_MMA ? MMAS : 0, COPIES, IMAGE_BYTES + RING_BYTES, kernel};
  int length = 0;
  const auto add = [&](const char* format, auto... values) {
    length += snprintf(made.name + length, sizeof(made.name) - length, length ? "+" : "");
    length += snprintf(made.name + length, sizeof(made.name) - length, format, values...);
  };
  if (N) add("%s/n%d", kind_names[KIND], N);
  if (COPIES != NO_COPIES) add("cp.async/c%d", COPIES);
  if (WITH_MMA) add("%s", "mma");
  return made;
}

// Names and order: ARMS of micro/contention.py.
const Arm arms[] = {
    arm<none, 0, true>(),         arm<ld_b32, 2, true>(),       arm<ld_b32, 4, true>(),
    arm<ld_b32, 8, true>(),       arm<ld_b32, 16, true>(),      arm<ld_b32, 24, true>(),
    arm<ld_b32, 32, true>(),      arm<ld_b32, 48, true>(),      arm<ld_b32, 24, false>(),
    arm<ld_b32, 48, false>(),     arm<ld_b16, 16, true>(),      arm<ld_b16, 32, true>(),
    arm<ldm_x4, 1, true>(),       arm<ldm_x4, 2, true>(),       arm<ldm_x4, 4, true>(),
    arm<ldm_x4, 8, true>(),       arm<ldm_x4, 6, false>(),      arm<ldm_x4, 12, false>(),
    arm<ldm_x2, 4, true>(),       arm<ldm_x2, 8, true>(),       arm<ldm_x2, 16, true>(),
    arm<ldm_x2_trans, 4, true>(), arm<ldm_x2_trans, 8, true>(), arm<st_b32, 4, true>(),
    arm<st_b32, 8, true>(),       arm<st_b32, 16, true>(),      arm<st_b32, 32, false>(),
    arm<prmt, 8, true>(),         arm<prmt, 16, true>(),        arm<prmt, 32, true>(),
    arm<prmt, 48, false>(),       arm<none, 0, true, 1>(),      arm<none, 0, true, 2>(),
    arm<none, 0, true, 4>(),      arm<ld_b32, 8, true, 1>(),    arm<ld_b32, 8, true, 2>(),
    arm<ld_b32, 24, true, 1>(),   arm<ld_b32, 24, true, 2>(),   arm<ld_b32, 24, false, 0>(),
    arm<ld_b32, 24, false, 1>(),  arm<ld_b32, 24, false, 2>(),  arm<ldm_x4, 6, false, 0>(),
    arm<ldm_x4, 6, false, 1>(),   arm<ldm_x4, 6, false, 2>(),
};

}  // namespace

extern "C" {

struct ContentionArm {
  const char* name;
  int kind, instructions, mmas, copies, shared_bytes;
};

int contention_count() { return sizeof(arms) / sizeof(arms[0]); }
ContentionArm contention_arm(int index) {
  const Arm& row = arms[index];
  return {row.name, row.kind, row.instructions, row.mmas, row.copies, row.shared_bytes};
}
void contention_sizes(int* warps, int* passes_per_loop, int* image_bytes, int* region_bytes) {
  *warps = WARPS;
  *passes_per_loop = PASSES_PER_LOOP;
  *image_bytes = IMAGE_BYTES;
  *region_bytes = REGION_BYTES;
}
const char* contention_error_string(int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); }

int contention_resources(int index, int dynamic_bytes, KernelResources* out) {
  return answer(prepare_kernel(arms[index].kernel, THREADS, dynamic_bytes, out));
}

// image, source, spans, sinks: see the kernel; spans: WarpSpan[blocks * WARPS]. contention_resources must have been
// called for this kernel and shared size. Each warp makes loops * PASSES_PER_LOOP passes.
int contention_launch(int index, int blocks, int dynamic_bytes, int loops, const void* image, const void* source,
                      void* spans, void* sinks, void* stream) {
  void* arguments[] = {&image, &source, &loops, &spans, &sinks};
  return answer(cudaLaunchKernel(arms[index].kernel, dim3(blocks), dim3(THREADS), arguments, dynamic_bytes,
                                 static_cast<cudaStream_t>(stream)));
}

}  // extern "C"
