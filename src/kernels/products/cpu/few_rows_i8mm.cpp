// Few rows for ARM CPUs with the 8-bit matrix instruction: SMMLA multiplies two rows of eight bytes by two rows of
// eight, so rows of x are packed by pairs, and weights are paired as they are read. A row alone takes dot products
// instead: their sums are integers, and exact.
#if defined(__aarch64__)

#include <arm_neon.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/products/few_rows.h"
#include "kernels/simd/arm_features.h"

namespace ei::kernels {
namespace {

constexpr int kBlock = 32;
constexpr size_t kWeightBlock = 20;  // f16 scale, f16 minimum, 16 bytes

// Two rows: [a 0..7, b 0..7], [a 8..15, b 8..15], ... and their scales and scaled sums as lanes {a, b, a, b}. One row
// alone lies in the same place: its 32 numbers, then its scale and its scaled sum.
struct PairBlock {
  int8_t numbers[2 * kBlock];
  float scale[4];
  float sum[4];
};

struct QuantisedBlock {
  int8_t numbers[kBlock];
  float scale = 0;
  float sum = 0;
};

QuantisedBlock quantise(const float* from) {
  QuantisedBlock block;
  float largest = 0;
  for (int i = 0; i < kBlock; ++i) largest = std::max(largest, std::fabs(from[i]));
  block.scale = largest / 127.0f;
  const float inverse = largest > 0 ? 127.0f / largest : 0.0f;
  int32_t sum = 0;
  for (int i = 0; i < kBlock; ++i) {
    const auto rounded = static_cast<int32_t>(std::nearbyint(from[i] * inverse));
    block.numbers[i] = static_cast<int8_t>(rounded);
    sum += rounded;
  }
  block.sum = block.scale * static_cast<float>(sum);
  return block;
}

void pack(const float* first, const float* second, int64_t blocks, bool alone, std::byte* to) {
  for (int64_t i = 0; i < blocks; ++i, to += sizeof(PairBlock)) {
    PairBlock packed{};
    const QuantisedBlock a = quantise(first + i * kBlock);
    if (alone) {
      std::memcpy(packed.numbers, a.numbers, kBlock);
      packed.scale[0] = a.scale;
      packed.sum[0] = a.sum;
    } else {
      const QuantisedBlock b = second != nullptr ? quantise(second + i * kBlock) : QuantisedBlock{};
      for (int part = 0; part < 4; ++part) {
        std::memcpy(packed.numbers + 16 * part, a.numbers + 8 * part, 8);
        std::memcpy(packed.numbers + 16 * part + 8, b.numbers + 8 * part, 8);
      }
      for (int lane = 0; lane < 4; ++lane) {
        packed.scale[lane] = lane % 2 == 0 ? a.scale : b.scale;
        packed.sum[lane] = lane % 2 == 0 ? a.sum : b.sum;
      }
    }
    std::memcpy(to, &packed, sizeof packed);
  }
}

struct Factors {
  float32x4_t scale;    // of four rows of weights
  float32x4_t minimum;  // of the same
};

inline Factors factors_of(const std::byte* weights, int64_t row_bytes) {
  uint32x4_t both = vdupq_n_u32(0);
  both = vld1q_lane_u32(reinterpret_cast<const uint32_t*>(weights), both, 0);
  both = vld1q_lane_u32(reinterpret_cast<const uint32_t*>(weights + row_bytes), both, 1);
  both = vld1q_lane_u32(reinterpret_cast<const uint32_t*>(weights + 2 * row_bytes), both, 2);
  both = vld1q_lane_u32(reinterpret_cast<const uint32_t*>(weights + 3 * row_bytes), both, 3);
  const uint16x8_t halves = vreinterpretq_u16_u32(both);
  return {vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(vuzp1q_u16(halves, halves)))),
          vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(vuzp2q_u16(halves, halves))))};
}

struct Numbers {
  int8x16_t low;   // columns 0..15
  int8x16_t high;  // columns 16..31
};

inline Numbers numbers_of(const std::byte* weights) {
  const uint8x16_t both = vld1q_u8(reinterpret_cast<const uint8_t*>(weights + 4));
  return {vreinterpretq_s8_u8(vandq_u8(both, vdupq_n_u8(15))), vreinterpretq_s8_u8(vshrq_n_u8(both, 4))};
}

inline int8x16_t first_halves(int8x16_t a, int8x16_t b) {
  return vreinterpretq_s8_s64(vzip1q_s64(vreinterpretq_s64_s8(a), vreinterpretq_s64_s8(b)));
}
inline int8x16_t second_halves(int8x16_t a, int8x16_t b) {
  return vreinterpretq_s8_s64(vzip2q_s64(vreinterpretq_s64_s8(a), vreinterpretq_s64_s8(b)));
}

// In both forms an element of y goes  sum = fma(minimum, x.sum, sum);  sum = fma(products, scale * x.scale, sum).
void multiply_alone(const FewRowsTile& tile) {
  float32x4_t sum = vdupq_n_f32(0);
  for (int64_t i = 0; i < tile.blocks; ++i) {
    const auto* x = reinterpret_cast<const PairBlock*>(tile.x) + i;
    const std::byte* weights = tile.weights + i * static_cast<int64_t>(kWeightBlock);
    const Factors factors = factors_of(weights, tile.row_bytes);
    const int8x16_t low = vld1q_s8(x->numbers);
    const int8x16_t high = vld1q_s8(x->numbers + 16);
    int32x4_t products[4];
    for (int row = 0; row < 4; ++row) {
      const Numbers numbers = numbers_of(weights + row * tile.row_bytes);
      products[row] = vdotq_s32(vdotq_s32(vdupq_n_s32(0), numbers.low, low), numbers.high, high);
    }
    const int32x4_t total = vpaddq_s32(vpaddq_s32(products[0], products[1]), vpaddq_s32(products[2], products[3]));
    sum = vfmaq_f32(sum, factors.minimum, vdupq_n_f32(x->sum[0]));
    sum = vfmaq_f32(sum, vcvtq_f32_s32(total), vmulq_f32(factors.scale, vdupq_n_f32(x->scale[0])));
  }
  vst1q_f32(tile.y, sum);
}

template <int kPairs>
void multiply_pairs(const FewRowsTile& tile, int64_t pair) {
  float32x4_t sums[2][kPairs];  // [pair of weights][pair of rows], lanes {w0 a, w0 b, w1 a, w1 b}
  for (auto& of_pair : sums)
    for (float32x4_t& sum : of_pair) sum = vdupq_n_f32(0);
  const auto* x = reinterpret_cast<const PairBlock*>(tile.x) + pair * tile.blocks;
  for (int64_t i = 0; i < tile.blocks; ++i, ++x) {
    const std::byte* weights = tile.weights + i * static_cast<int64_t>(kWeightBlock);
    const Factors factors = factors_of(weights, tile.row_bytes);
    const float32x4_t scale[2] = {vzip1q_f32(factors.scale, factors.scale), vzip2q_f32(factors.scale, factors.scale)};
    const float32x4_t minimum[2] = {vzip1q_f32(factors.minimum, factors.minimum),
                                    vzip2q_f32(factors.minimum, factors.minimum)};
    int8x16_t paired[2][4];
    for (int of = 0; of < 2; ++of) {
      const Numbers first = numbers_of(weights + 2 * of * tile.row_bytes);
      const Numbers second = numbers_of(weights + (2 * of + 1) * tile.row_bytes);
      paired[of][0] = first_halves(first.low, second.low);
      paired[of][1] = second_halves(first.low, second.low);
      paired[of][2] = first_halves(first.high, second.high);
      paired[of][3] = second_halves(first.high, second.high);
    }
    for (int rows = 0; rows < kPairs; ++rows) {
      const PairBlock& block = x[rows * tile.blocks];
      const float32x4_t x_scale = vld1q_f32(block.scale);
      const float32x4_t x_sum = vld1q_f32(block.sum);
      for (int of = 0; of < 2; ++of) {
        int32x4_t products = vdupq_n_s32(0);
        for (int part = 0; part < 4; ++part)
          products = vmmlaq_s32(products, paired[of][part], vld1q_s8(block.numbers + 16 * part));
        sums[of][rows] = vfmaq_f32(sums[of][rows], minimum[of], x_sum);
        sums[of][rows] = vfmaq_f32(sums[of][rows], vcvtq_f32_s32(products), vmulq_f32(scale[of], x_scale));
      }
    }
  }
  for (int rows = 0; rows < kPairs; ++rows) {
    const int64_t row = 2 * (pair + rows);
    vst1q_f32(tile.y + row * tile.y_stride, vuzp1q_f32(sums[0][rows], sums[1][rows]));
    if (row + 1 < tile.rows) vst1q_f32(tile.y + (row + 1) * tile.y_stride, vuzp2q_f32(sums[0][rows], sums[1][rows]));
  }
}

void multiply(const FewRowsTile& tile) {
  if (tile.rows == 1) return multiply_alone(tile);
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

bool usable() { return cpu_has_i8mm() && cpu_has_dotprod(); }

}  // namespace

const FewRowsKernel& i8mm_few_rows() {
  static constexpr FewRowsKernel kKernel{.name = "neonbf16",  // what comes with it
                                         .usable = usable,
                                         .pair_block_bytes = sizeof(PairBlock),
                                         .pack = pack,
                                         .multiply = multiply};
  return kKernel;
}

}  // namespace ei::kernels

#endif
