// Few rows by eight-bit weights for ARM CPUs with the 8-bit matrix instruction. ggml interleaves four rows of weights
// by eight numbers: two of these are what SMMLA takes. It multiplies four rows of x at a time and finishes every block
// of 32 by itself; here eight rows share what is loaded, with the same operations on each element, in the same order.
#if defined(__aarch64__)

#include <arm_neon.h>

#include <cstring>

#include "kernels/products/few_rows.h"
#include "kernels/simd/arm_features.h"

namespace ei::kernels {
namespace {

constexpr int kNumbers = 32;               // of a block
constexpr size_t kInterleavedBlock = 136;  // four f16 scales, 4 x 32 numbers

// Two rows: [a 0..7, b 0..7], [a 8..15, b 8..15], ... and their scales as lanes {a, b, a, b}.
struct EightBitPair {
  int8_t numbers[2 * kNumbers];
  float scale[4];
};

// As ggml does it: the scale is rounded to f16 behind the division, and to nearest even.
inline float quantise_block(const float* from, int8_t* to, int64_t step) {
  float32x4_t values[8];
  float32x4_t largest = vdupq_n_f32(0);
  for (int i = 0; i < 8; ++i) {
    values[i] = vld1q_f32(from + 4 * i);
    largest = vmaxq_f32(largest, vabsq_f32(values[i]));
  }
  const float scale = vmaxvq_f32(largest) / 127.0f;
  const float inverse = scale != 0 ? 1.0f / scale : 0.0f;
  for (int part = 0; part < 4; ++part) {
    const int32x4_t low = vcvtnq_s32_f32(vmulq_n_f32(values[2 * part], inverse));
    const int32x4_t high = vcvtnq_s32_f32(vmulq_n_f32(values[2 * part + 1], inverse));
    vst1_s8(to + part * step, vmovn_s16(vcombine_s16(vmovn_s32(low), vmovn_s32(high))));
  }
  return vgetq_lane_f32(vcvt_f32_f16(vcvt_f16_f32(vdupq_n_f32(scale))), 0);
}

void pack_eight_bits(const float* first, const float* second, int64_t blocks, bool /*alone*/, std::byte* to) {
  for (int64_t i = 0; i < blocks; ++i, to += sizeof(EightBitPair)) {
    EightBitPair pair{};
    const float a = quantise_block(first + i * kNumbers, pair.numbers, 16);
    const float b = second != nullptr ? quantise_block(second + i * kNumbers, pair.numbers + 8, 16) : 0.0f;
    for (int lane = 0; lane < 4; ++lane) pair.scale[lane] = lane % 2 == 0 ? a : b;
    std::memcpy(to, &pair, sizeof pair);
  }
}

template <int kPairs>
void multiply_eight_bits(const FewRowsTile& tile, int64_t pair) {
  float32x4_t sums[2][kPairs];  // [pair of weights][pair of rows], lanes {w0 a, w0 b, w1 a, w1 b}
  for (auto& of_pair : sums)
    for (float32x4_t& sum : of_pair) sum = vdupq_n_f32(0);
  const auto* x = reinterpret_cast<const EightBitPair*>(tile.x) + pair * tile.blocks;
  const std::byte* weights = tile.weights;
  for (int64_t i = 0; i < tile.blocks; ++i, ++x, weights += kInterleavedBlock) {
    const float32x4_t scales = vcvt_f32_f16(vld1_f16(reinterpret_cast<const float16_t*>(weights)));
    const float32x4_t scale[2] = {vzip1q_f32(scales, scales), vzip2q_f32(scales, scales)};
    const auto* numbers = reinterpret_cast<const int8_t*>(weights) + 8;
    int8x16_t paired[2][4];
    for (int part = 0; part < 4; ++part)
      for (int of = 0; of < 2; ++of) paired[of][part] = vld1q_s8(numbers + 32 * part + 16 * of);
    for (int rows = 0; rows < kPairs; ++rows) {
      const EightBitPair& block = x[rows * tile.blocks];
      const float32x4_t x_scale = vld1q_f32(block.scale);
      int32x4_t products[2] = {vdupq_n_s32(0), vdupq_n_s32(0)};
      for (int part = 0; part < 4; ++part) {
        const int8x16_t both = vld1q_s8(block.numbers + 16 * part);
        for (int of = 0; of < 2; ++of) products[of] = vmmlaq_s32(products[of], paired[of][part], both);
      }
      for (int of = 0; of < 2; ++of)
        sums[of][rows] = vfmaq_f32(sums[of][rows], vcvtq_f32_s32(products[of]), vmulq_f32(x_scale, scale[of]));
    }
  }
  for (int rows = 0; rows < kPairs; ++rows) {
    const int64_t row = 2 * (pair + rows);
    vst1q_f32(tile.y + row * tile.y_stride, vuzp1q_f32(sums[0][rows], sums[1][rows]));
    if (row + 1 < tile.rows) vst1q_f32(tile.y + (row + 1) * tile.y_stride, vuzp2q_f32(sums[0][rows], sums[1][rows]));
  }
}

void multiply_rows_of_eight_bits(const FewRowsTile& tile) {
  const int64_t pairs = (tile.rows + 1) / 2;
  for (int64_t pair = 0; pair < pairs; pair += 4) {
    switch (pairs - pair) {
      case 1: multiply_eight_bits<1>(tile, pair); break;
      case 2: multiply_eight_bits<2>(tile, pair); break;
      case 3: multiply_eight_bits<3>(tile, pair); break;
      default: multiply_eight_bits<4>(tile, pair); break;
    }
  }
}

bool eight_bits_usable() { return cpu_has_i8mm() && cpu_has_dotprod(); }

}  // namespace

const FewRowsKernel& i8mm_few_rows_q8() {
  static constexpr FewRowsKernel kKernel{.name = "neonbf16",  // what comes with it
                                         .usable = eight_bits_usable,
                                         .pair_block_bytes = sizeof(EightBitPair),
                                         .pack = pack_eight_bits,
                                         .multiply = multiply_rows_of_eight_bits};
  return kKernel;
}

}  // namespace ei::kernels

#endif
