// Hopper's instructions by name: transaction barriers, bulk copies, wgmma's fences and descriptors, named barriers.
#pragma once

#include <cstdint>

namespace ei::kernels::cuda {

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void barrier_init(uint64_t* barrier, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count));
}
__device__ __forceinline__ void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// Arrives, and announces bytes that bulk copies will bring.
__device__ __forceinline__ void barrier_expect(uint64_t* barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void barrier_arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
__device__ __forceinline__ void barrier_wait(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred p;\nWAIT%=:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra DONE%=;\n"
      "bra WAIT%=;\nDONE%=:\n}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

// Global to shared memory; `bytes` is a multiple of 16, both addresses are 16-byte aligned.
__device__ __forceinline__ void bulk_copy(uint32_t to, const void* from, uint32_t bytes, uint64_t* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(shared_address(barrier))
               : "memory");
}
// What this thread stored to shared memory becomes visible to wgmma and to bulk copies.
__device__ __forceinline__ void async_proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Named barriers of `threads` threads; 0 is __syncthreads'.
__device__ __forceinline__ void named_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void named_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Lanes of a warp that say by a barrier that it has read or written something: one, behind __syncwarp.
// EI_EVERY_LANE_ARRIVES: all, for compute-sanitizer's racecheck, which does not see that what the others did comes
// before the one's arrival.
#ifdef EI_EVERY_LANE_ARRIVES
inline constexpr int kLanesArriving = 32;
#else
inline constexpr int kLanesArriving = 1;
#endif

// EI_EQUAL_REGISTERS: all warps keep as many as they began with, for tools that add code of their own to a kernel.
template <int kRegisters>
__device__ __forceinline__ void give_registers() {
#ifndef EI_EQUAL_REGISTERS
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
#ifndef EI_EQUAL_REGISTERS
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}

// A wgmma operand in shared memory. kWidth is the swizzle's: 128, 64 or 32 bytes. Strides in bytes: `leading` between
// atoms along the rows of a transposed operand (unused otherwise), `stride` between groups of 8.
template <int kWidth>
__device__ __forceinline__ uint64_t operand(uint32_t address, uint32_t leading, uint32_t stride) {
  constexpr uint64_t kMode = kWidth == 128 ? 1 : kWidth == 64 ? 2 : 3;
  return static_cast<uint64_t>((address & 0x3FFFF) >> 4) | (static_cast<uint64_t>(leading >> 4) << 16) |
         (static_cast<uint64_t>(stride >> 4) << 32) | (kMode << 62);
}

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Holds registers in place around asynchronous products, so that the compiler moves nothing across.
template <int kCount>
__device__ __forceinline__ void pin(float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(values[i])::"memory");
}
template <int kCount>
__device__ __forceinline__ void pin(int32_t (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(values[i])::"memory");
}
template <int kCount>
__device__ __forceinline__ void pin(uint32_t (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(values[i])::"memory");
}

// Whatever `value` (never negative) is made of is computed before what follows. The compiler would otherwise move work
// that is meant to run beside products behind the wait for them.
__device__ __forceinline__ void compute_before(float value) {
  if (value < 0) asm volatile("nanosleep.u32 1;" ::: "memory");
}

}  // namespace ei::kernels::cuda
