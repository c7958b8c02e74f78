// The products of a warp's 16 rows with two blocks of 8 keys in fp8 (fp8_layout.h) that lie in shared memory: codes
// become f16 in registers, where mma.sync wants them. A product does not ask in which order its terms come, so a lane
// takes codes that are neighbours: queries are loaded in that order, and sums come out in an order of their own.
#pragma once

#include <cstdint>

#include "kernels/attention/cuda/mma.cuh"
#include "kernels/pages/cuda/fp8_elements.cuh"

namespace ei::kernels::cuda {

template <int kWords>
__device__ __forceinline__ void load_words(uint32_t (&to)[kWords], uint32_t from) {
  if constexpr (kWords == 4) {
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
  } else if constexpr (kWords == 2) {
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(from) : "memory");
  } else {
#pragma unroll
    for (int i = 0; i < kWords; ++i)
      asm volatile("ld.shared.b32 %0, [%1];" : "=r"(to[i]) : "r"(from + 4 * i) : "memory");
  }
}

template <int kDim>
struct CodeProducts {
  static constexpr int kHalfBytes = Fp8Layout{kDim}.half_bytes();
  static constexpr int kBlockBytes = Fp8Layout{kDim}.block_bytes();
  static constexpr int kRowPieces = kDim / 16;
  static constexpr int kGroup = kDim % 64 == 0 ? 64 : 32;  // elements of a key that four lanes load together
  static constexpr int kOwn = kGroup / 4;
  static constexpr int kColumns = kDim / 8;  // elements of a value that a lane has
  static constexpr int kTogether = kColumns < 16 ? kColumns : 16;

  // Pieces of 16 bytes change places inside their row, so that lanes which load together find different banks.
  static __device__ __forceinline__ int place(int row, int piece, bool value) {
    if constexpr ((kRowPieces & (kRowPieces - 1)) != 0) return piece;
    return piece ^ ((value ? row / 2 * 2 : row % 2 * 4) & (kRowPieces - 1));
  }
  // Where the 16 bytes at `offset` of a block go in shared memory.
  static __device__ __forceinline__ int place_of(int offset) {
    const int piece = offset / 16;
    if (offset >= 2 * kHalfBytes) return offset;
    const int in_row = piece % kRowPieces;
    return offset + (place(piece / kRowPieces % kBlockKeys, in_row, offset >= kHalfBytes) - in_row) * 16;
  }
  static __device__ __forceinline__ uint32_t element(uint32_t block, int row, int dim, bool value) {
    return block + (value ? kHalfBytes : 0) + row * kDim + place(row, dim / 16, value) * 16 + dim % 16;
  }
  // The first of the two columns of a query that word `word` of its fragment holds: [kDim / 16 steps][2 halves].
  static __device__ __forceinline__ int query_column(int word, int lane) {
    const int step = word / 2;
    return step / (kOwn / 4) * kGroup + lane % 4 * kOwn + step % (kOwn / 4) * 4 + word % 2 * 2;
  }
  // The element of a row that sum `index` is.
  static __device__ __forceinline__ int sum_column(int index) { return index % 8 * kColumns + index / 8; }

  // Exponents of a lane's two keys of a block.
  static __device__ __forceinline__ int2 exponents(uint32_t block, int lane, bool value) {
    int2 both;
    const uint32_t from = block + 2 * kHalfBytes + (value ? kBlockKeys : 0) + lane % 4 * 2;
    asm volatile("ld.shared.s8 %0, [%1];" : "=r"(both.x) : "r"(from) : "memory");
    asm volatile("ld.shared.s8 %0, [%1];" : "=r"(both.y) : "r"(from + 1) : "memory");
    return both;
  }

  static __device__ __forceinline__ void keys(float (&scores)[8], const uint32_t (&q)[kDim / 4], uint32_t blocks) {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int i = 0; i < 8; ++i) scores[i] = 0;
#pragma unroll
    for (int b = 0; b < 2; ++b) {
      const uint32_t block = blocks + b * kBlockBytes;
#pragma unroll
      for (int group = 0; group < kDim / kGroup; ++group) {
        uint32_t words[kOwn / 4];
        load_words(words, element(block, lane / 4, group * kGroup + lane % 4 * kOwn, false));
#pragma unroll
        for (int step = 0; step < kOwn / 4; ++step)
          multiply_add<__half>(scores + 4 * b, q + 4 * (group * (kOwn / 4) + step), widen_codes(words[step]),
                               widen_codes(words[step] >> 16));
      }
      const int2 exponent = exponents(block, lane, false);
      const float scale[2] = {__int_as_float((127 + exponent.x) << 23), __int_as_float((127 + exponent.y) << 23)};
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[4 * b + i] *= scale[i % 2];
    }
  }

  // out += weights V. `left`: slots from the first one on that hold something; what others hold may be no number.
  static __device__ __forceinline__ void values(float (&out)[kDim / 2], const uint32_t (&weights)[4], uint32_t blocks,
                                                int32_t left) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    __half2 scale[2];
    bool there[2][2];
#pragma unroll
    for (int b = 0; b < 2; ++b) {
      const int2 exponent = exponents(blocks + b * kBlockBytes, lane, true);
#pragma unroll
      for (int i = 0; i < 2; ++i) there[b][i] = b * kBlockKeys + lane % 4 * 2 + i < left;
      scale[b] = __halves2half2(there[b][0] ? power_of_two(exponent.x) : __ushort_as_half(0),
                                there[b][1] ? power_of_two(exponent.y) : __ushort_as_half(0));
    }
#pragma unroll
    for (int first = 0; first < kColumns; first += kTogether) {
      uint32_t words[2][2][kTogether / 4];
#pragma unroll
      for (int b = 0; b < 2; ++b) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          load_words(words[b][i],
                     element(blocks + b * kBlockBytes, lane % 4 * 2 + i, lane / 4 * kColumns + first, true));
#pragma unroll
          for (int w = 0; w < kTogether / 4; ++w) words[b][i][w] = there[b][i] ? words[b][i][w] : 0u;
        }
      }
#pragma unroll
      for (int w = 0; w < kTogether / 4; ++w) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          uint32_t pairs[2];  // of each block: two columns, the codes of both keys side by side
#pragma unroll
          for (int b = 0; b < 2; ++b)
            pairs[b] = __byte_perm(words[b][0][w], words[b][1][w], half == 0 ? 0x5140 : 0x7362);
#pragma unroll
          for (int i = 0; i < 2; ++i)
            multiply_add<__half>(out + 4 * (first + 4 * w + 2 * half + i), weights,
                                 widen_pair(pairs[0] >> (16 * i), scale[0]),
                                 widen_pair(pairs[1] >> (16 * i), scale[1]));
        }
      }
    }
  }
};

}  // namespace ei::kernels::cuda
