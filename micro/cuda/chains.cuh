// Loads whose first register is the address of the next one, and the matrix store that sm_90 adds.
//
// A chain holds offsets into an image that starts at IMAGE_ADDRESS, which every load adds as an immediate: an add would
// be timed as latency. The traps: ptxas narrows a plain vector load to the registers that are used, hence .volatile;
// and what only sm_90 has must compile to something on sm_80, where the caller never launches it.
#pragma once
#include "ptx.cuh"

namespace chains {

extern __shared__ __align__(128) unsigned char shared_bytes[];

// The image starts at this shared address, an immediate of every load. At or above the start of dynamic shared memory
// on every architecture (checked by the kernel), and a multiple of 128, so that it moves no address to another bank.
constexpr uint32_t IMAGE_ADDRESS = 1024;

struct LdB16 {
  static __device__ __forceinline__ uint32_t next(uint32_t offset) {
    uint32_t r;  // a 32-bit destination is zero-extended by the load itself
    asm volatile("ld.shared.b16 %0, [%1+%2];" : "=r"(r) : "r"(offset), "n"(IMAGE_ADDRESS));
    return r;
  }
};
struct LdB32 {
  static __device__ __forceinline__ uint32_t next(uint32_t offset) {
    uint32_t r;
    asm volatile("ld.shared.b32 %0, [%1+%2];" : "=r"(r) : "r"(offset), "n"(IMAGE_ADDRESS));
    return r;
  }
};
struct LdB64 {
  static __device__ __forceinline__ uint32_t next(uint32_t offset) {
    uint32_t r[2];
    asm volatile("ld.volatile.shared.v2.b32 {%0,%1}, [%2+%3];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(offset), "n"(IMAGE_ADDRESS));
    return r[0];
  }
};
struct LdB128 {
  static __device__ __forceinline__ uint32_t next(uint32_t offset) {
    uint32_t r[4];
    asm volatile("ld.volatile.shared.v4.b32 {%0,%1,%2,%3}, [%4+%5];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(offset), "n"(IMAGE_ADDRESS));
    return r[0];
  }
};

#define LDMATRIX_X1(NAME, TRANS)                                                      \
  struct NAME {                                                                       \
    static __device__ __forceinline__ uint32_t next(uint32_t offset) {                \
      uint32_t r;                                                                     \
      asm volatile("ldmatrix.sync.aligned.m8n8.x1" TRANS ".shared.b16 {%0}, [%1+%2];" \
                   : "=r"(r)                                                          \
                   : "r"(offset), "n"(IMAGE_ADDRESS));                                \
      return r;                                                                       \
    }                                                                                 \
  };
#define LDMATRIX_X2(NAME, TRANS)                                                         \
  struct NAME {                                                                          \
    static __device__ __forceinline__ uint32_t next(uint32_t offset) {                   \
      uint32_t r[2];                                                                     \
      asm volatile("ldmatrix.sync.aligned.m8n8.x2" TRANS ".shared.b16 {%0,%1}, [%2+%3];" \
                   : "=r"(r[0]), "=r"(r[1])                                              \
                   : "r"(offset), "n"(IMAGE_ADDRESS));                                   \
      return r[0];                                                                       \
    }                                                                                    \
  };
#define LDMATRIX_X4(NAME, TRANS)                                                               \
  struct NAME {                                                                                \
    static __device__ __forceinline__ uint32_t next(uint32_t offset) {                         \
      uint32_t r[4];                                                                           \
      asm volatile("ldmatrix.sync.aligned.m8n8.x4" TRANS ".shared.b16 {%0,%1,%2,%3}, [%4+%5];" \
                   : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                            \
                   : "r"(offset), "n"(IMAGE_ADDRESS));                                         \
      return r[0];                                                                             \
    }                                                                                          \
  };
LDMATRIX_X1(LdmX1, "")
LDMATRIX_X2(LdmX2, "")
LDMATRIX_X4(LdmX4, "")
LDMATRIX_X1(LdmX1T, ".trans")
LDMATRIX_X2(LdmX2T, ".trans")
LDMATRIX_X4(LdmX4T, ".trans")
#undef LDMATRIX_X1
#undef LDMATRIX_X2
#undef LDMATRIX_X4

template <int MATRICES>
__device__ __forceinline__ void stmatrix(uint32_t offset, const uint32_t (&r)[4]) {
#if __CUDA_ARCH__ >= 900
  if constexpr (MATRICES == 1)
    asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0+%1], {%2};" ::"r"(offset), "n"(IMAGE_ADDRESS), "r"(r[0])
                 : "memory");
  if constexpr (MATRICES == 2)
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0+%1], {%2,%3};" ::"r"(offset), "n"(IMAGE_ADDRESS),
                 "r"(r[0]), "r"(r[1])
                 : "memory");
  if constexpr (MATRICES == 4)
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0+%1], {%2,%3,%4,%5};" ::"r"(offset), "n"(IMAGE_ADDRESS),
                 "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
#endif
}

}  // namespace chains
