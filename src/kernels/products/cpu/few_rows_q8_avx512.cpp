// Few rows by eight-bit weights for x86 CPUs with AVX-512 and VNNI, weights as the model file has them. A register
// holds a block of two rows of x side by side, and four rows of weights by eight of x share what is loaded. Every
// element is made of ggml's operations in ggml's order (ggml_vec_dot_q8_0_q8_0 with AVX2: eight sums of four numbers
// each, one chain of fused multiply-adds for each, and these added in halves), so it has the bits that ggml gives the
// row alone.
#if defined(__x86_64__)

#include <cstring>

#include "kernels/products/few_rows.h"
#include "kernels/simd/vec_avx512.h"
#include "kernels/simd/x86_features.h"

namespace ei::kernels {
namespace {

constexpr int kNumbers = 32;             // of a block
constexpr size_t kBlock = 2 + kNumbers;  // of weights: an f16 scale and its numbers
constexpr int kWeights = 4;              // rows of weights in a tile

// VNNI multiplies bytes without a sign by bytes with one: weights are moved up by 128, and sums begin with what that
// adds.
struct alignas(64) RowPair {
  int8_t numbers[2 * kNumbers];  // of the first row, then of the second
  int32_t begin[16];             // -128 times the sum of every four numbers
  float scale[16];               // the first row's eight times, then the second's
};

// As ggml does it: the scale is rounded to f16 behind the division.
inline float quantise_block(const float* from, int8_t* to) {
  const __m512 low = _mm512_loadu_ps(from);
  const __m512 high = _mm512_loadu_ps(from + 16);
  const float largest = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(low), _mm512_abs_ps(high)));
  const __m512 inverse = _mm512_set1_ps(largest != 0 ? 127.0f / largest : 0.0f);
  const auto whole = [&](__m512 values) {
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return _mm512_cvtsepi32_epi8(_mm512_cvt_roundps_epi32(_mm512_mul_ps(values, inverse), kNearest));
  };
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), whole(low));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 16), whole(high));
  return _cvtsh_ss(_cvtss_sh(largest / 127.0f, _MM_FROUND_TO_NEAREST_INT));
}

void pack_pairs(const float* first, const float* second, int64_t blocks, bool /*alone*/, std::byte* to) {
  for (int64_t i = 0; i < blocks; ++i, to += sizeof(RowPair)) {
    RowPair pair{};
    const float a = quantise_block(first + i * kNumbers, pair.numbers);
    const float b = second != nullptr ? quantise_block(second + i * kNumbers, pair.numbers + kNumbers) : 0.0f;
    for (int lane = 0; lane < 16; ++lane) {
      const int8_t* four = pair.numbers + 4 * lane;
      pair.begin[lane] = -128 * (four[0] + four[1] + four[2] + four[3]);
      pair.scale[lane] = lane < 8 ? a : b;
    }
    std::memcpy(to, &pair, sizeof pair);
  }
}

inline float sum_of_eight(__m256 x) {
  __m128 sum = _mm256_extractf128_ps(x, 1);
  sum = _mm_add_ps(sum, _mm256_castps256_ps128(x));
  sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
  return _mm_cvtss_f32(_mm_add_ss(sum, _mm_movehdup_ps(sum)));
}

template <int kPairs>
void multiply_pairs(const FewRowsTile& tile, int64_t pair) {
  __m512 sums[kWeights][kPairs];
  for (auto& of_weight : sums)
    for (__m512& sum : of_weight) sum = _mm512_setzero_ps();
  const auto* x = reinterpret_cast<const RowPair*>(tile.x) + pair * tile.blocks;
  const __m512i up = _mm512_set1_epi8(-128);
  for (int64_t i = 0; i < tile.blocks; ++i, ++x) {
    __m512i numbers[kWeights];
    __m512 scale[kWeights];
    for (int w = 0; w < kWeights; ++w) {
      const std::byte* from = tile.weights + w * tile.row_bytes + i * static_cast<int64_t>(kBlock);
      uint16_t half = 0;
      std::memcpy(&half, from, sizeof half);
      scale[w] = _mm512_set1_ps(_cvtsh_ss(half));
      const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 2));
      numbers[w] = _mm512_xor_si512(_mm512_broadcast_i64x4(bytes), up);
    }
    for (int rows = 0; rows < kPairs; ++rows) {
      const RowPair& block = x[rows * tile.blocks];
      const __m512i both = _mm512_loadu_si512(block.numbers);
      const __m512i begin = _mm512_loadu_si512(block.begin);
      const __m512 x_scale = _mm512_loadu_ps(block.scale);
      for (int w = 0; w < kWeights; ++w) {
        const __m512 product = _mm512_cvtepi32_ps(_mm512_dpbusd_epi32(begin, numbers[w], both));
        sums[w][rows] = _mm512_fmadd_ps(_mm512_mul_ps(scale[w], x_scale), product, sums[w][rows]);
      }
    }
  }
  for (int rows = 0; rows < kPairs; ++rows) {
    const int64_t row = 2 * (pair + rows);
    float* first = tile.y + row * tile.y_stride;
    for (int w = 0; w < kWeights; ++w) {
      first[w] = sum_of_eight(_mm512_castps512_ps256(sums[w][rows]));
      if (row + 1 < tile.rows) first[tile.y_stride + w] = sum_of_eight(_mm512_extractf32x8_ps(sums[w][rows], 1));
    }
  }
}

void multiply_rows(const FewRowsTile& tile) {
  const int64_t pairs = (tile.rows + 1) / 2;
  for (int64_t pair = 0; pair < pairs; pair += 4) {
    switch (pairs - pair) {
      case 1: multiply_pairs<1>(tile, pair); break;
      case 2: multiply_pairs<2>(tile, pair); break;
      case 3: multiply_pairs<3>(tile, pair); break;
      default: multiply_pairs<4>(tile, pair); break;
    }
  }
}

}  // namespace

const FewRowsKernel& avx512_few_rows_q8() {
  static constexpr FewRowsKernel kKernel{.name = "avx512",
                                         .usable = cpu_has_avx512vnni,
                                         .pair_block_bytes = sizeof(RowPair),
                                         .pack = pack_pairs,
                                         .multiply = multiply_rows};
  return kKernel;
}

}  // namespace ei::kernels

#endif
