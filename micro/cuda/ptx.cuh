// One wrapper an instruction, so that what a kernel says is what the machine runs.
//
// Loads are `asm volatile`: the front end can neither merge two b32 loads into one b64 nor drop one whose value it
// thinks it knows. Stores, copies and clocks clobber "memory" besides. Loads do not: they write nothing, and what they
// read was written by such a store or copy, behind which volatile alone keeps them. Shared-memory addresses are 32-bit
// offsets of the shared window. The trap: all this binds the front end. ptxas still reorders loads, lifts them out of
// loops and drops what nobody uses, so the tests read the machine code.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cstdint>

namespace ptx {

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ uint16_t ld_shared_b16(uint32_t address) {
  uint16_t value;
  asm volatile("ld.shared.b16 %0, [%1];" : "=h"(value) : "r"(address));
  return value;
}
__device__ __forceinline__ uint32_t ld_shared_b32(uint32_t address) {
  uint32_t value;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(address));
  return value;
}
__device__ __forceinline__ uint4 ld_shared_16(uint32_t address) {
  uint4 v;
  asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(address));
  return v;
}
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}
__device__ __forceinline__ void ldmatrix_x2(uint32_t (&r)[2], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(address));
}
__device__ __forceinline__ void ldmatrix_x2_trans(uint32_t (&r)[2], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(address));
}

// Two b16 values into one register, the first in the low half: the element with the smaller k.
__device__ __forceinline__ uint32_t pack_b16(uint16_t low, uint16_t high) {
  uint32_t value;
  asm("mov.b32 %0, {%1, %2};" : "=r"(value) : "h"(low), "h"(high));
  return value;
}

template <typename T>
__device__ __forceinline__ void mma_m16n8k16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);
template <>
__device__ __forceinline__ void mma_m16n8k16<__nv_bfloat16>(float (&c)[4], const uint32_t (&a)[4],
                                                            const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
template <>
__device__ __forceinline__ void mma_m16n8k16<__half>(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// .cg: through L2 only; the bytes are used once a block and would only displace others in L1. The L2 prefetch size is
// spelt out because ptxas otherwise chooses one per kernel, and kernels under comparison must not differ in it.
__device__ __forceinline__ void cp_async_16(uint32_t shared, const void* global) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

__device__ __forceinline__ uint4 ld_global_16(const void* global) {
  uint4 v;
  asm volatile("ld.global.v4.b32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(global));
  return v;
}
__device__ __forceinline__ void st_shared_b32(uint32_t shared, uint32_t value) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(shared), "r"(value) : "memory");
}
__device__ __forceinline__ void st_shared_16(uint32_t shared, uint4 v) {
  asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(shared), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

// The same value, of unknown origin: a shuffle of a lane with itself. Under register pressure ptxas recomputes an
// address in the loop instead of keeping it; it cannot recompute what a shuffle returned.
__device__ __forceinline__ uint32_t opaque(uint32_t value) {
  uint32_t same;
  asm volatile("{ .reg .b32 lane; mov.u32 lane, %%laneid; shfl.sync.idx.b32 %0, %1, lane, 31, 0xffffffff; }"
               : "=r"(same)
               : "r"(value));
  return same;
}

// Lanes of the warp whose value is not zero, a bit each: what comes after starts when every lane has its value.
__device__ __forceinline__ uint32_t ballot_nonzero(uint32_t value) {
  uint32_t lanes;
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; vote.sync.ballot.b32 %0, p, 0xffffffff; }"
               : "=r"(lanes)
               : "r"(value)
               : "memory");
  return lanes;
}

__device__ __forceinline__ uint64_t clock64() {
  uint64_t cycles;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles)::"memory");
  return cycles;
}
__device__ __forceinline__ uint64_t globaltimer_ns() {
  uint64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns)::"memory");
  return ns;
}
__device__ __forceinline__ uint32_t sm_id() {
  uint32_t id;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
  return id;
}

}  // namespace ptx
