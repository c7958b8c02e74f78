// The instructions of compute capability 8.0 by name: asynchronous copies, ldmatrix, mma.sync; and the products of a
// warp's 16 rows with blocks of 8 keys that lie in shared memory as kv_layout.h says.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "kernels/attention/cuda/kv_layout.h"

namespace ei::kernels::cuda {

// 16 bytes from global to shared memory; zeros where `take` is false (nothing is read then).
__device__ __forceinline__ void copy_piece(uint32_t to, const void* from, bool take) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(take ? 16 : 0) : "memory");
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Four matrices of 8 x 8 elements; lane l names row l % 8 of matrix l / 8.
template <bool kTransposed>
__device__ __forceinline__ void load_matrices(uint32_t (&to)[4], uint32_t row) {
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row)
                 : "memory");
  }
}

// sum[16 x 8] += a[16 x 16] b[16 x 8]
template <typename T>
__device__ __forceinline__ void multiply_add(float* sum, const uint32_t* a, uint32_t b0, uint32_t b1) {
  if constexpr (std::is_same_v<T, __half>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
        "%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, "
        "%2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

template <int kDim, typename T>
struct BlockProducts {
  static constexpr int kBlockBytes = KvLayout{kDim, 2}.block_bytes();

  // scores[4 b ..] = Q K^T of block b; blocks lie one behind the other from `blocks` on. q: [kDim / 16][4] words.
  template <int kBlocks>
  static __device__ __forceinline__ void keys(float (&scores)[4 * kBlocks], const uint32_t (&q)[kDim / 4],
                                              uint32_t blocks) {
    constexpr KvLayout kLayout{kDim, 2};
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 4 * kBlocks; ++i) scores[i] = 0;
#pragma unroll
    for (int deep = 0; deep < kDim / 32; ++deep) {
      const uint32_t row = blocks + kLayout.piece_offset(lane % 8, 4 * deep + lane / 8);
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        uint32_t b[4];
        load_matrices<false>(b, row + block * kBlockBytes);
        multiply_add<T>(scores + 4 * block, q + 8 * deep, b[0], b[1]);
        multiply_add<T>(scores + 4 * block, q + 8 * deep + 4, b[2], b[3]);
      }
    }
  }

  // out += weights V, 16 keys (two blocks) at a time. weights: [kBlocks / 2][4] words.
  template <int kBlocks>
  static __device__ __forceinline__ void values(float (&out)[kDim / 2], const uint32_t (&weights)[2 * kBlocks],
                                                uint32_t blocks) {
    constexpr KvLayout kLayout{kDim, 2};
    const int lane = threadIdx.x % 32;
    const uint32_t first = blocks + kLayout.half_bytes() + lane / 8 % 2 * kBlockBytes;
#pragma unroll
    for (int wide = 0; wide < kDim / 16; ++wide) {
      const uint32_t row = first + kLayout.piece_offset(lane % 8, 2 * wide + lane / 16);
#pragma unroll
      for (int pair = 0; pair < kBlocks / 2; ++pair) {
        uint32_t b[4];
        load_matrices<true>(b, row + pair * 2 * kBlockBytes);
        multiply_add<T>(out + 8 * wide, weights + 4 * pair, b[0], b[1]);
        multiply_add<T>(out + 8 * wide + 4, weights + 4 * pair, b[2], b[3]);
      }
    }
  }
};

}  // namespace ei::kernels::cuda
