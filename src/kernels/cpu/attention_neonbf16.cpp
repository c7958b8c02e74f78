// Attention for ARM CPUs with the bf16 matrix instruction. BFMMLA multiplies two rows of four bf16 by two rows of four
// and adds the 2x2 result to four fp32 lanes, so every operand here is packed as pairs: [step of 4, pair, 2, 4].
#if defined(__aarch64__)

#include <asm/hwcap.h>
#include <sys/auxv.h>

#include "kernels/cpu/flash_variant.h"
#include "kernels/cpu/neon.h"
#include "kernels/cpu/neon_decode.h"
#include "kernels/cpu/variants.h"

namespace ei::kernels {
namespace {

inline bfloat16x8_t load_bf16(const uint16_t* from) { return vreinterpretq_bf16_u16(vld1q_u16(from)); }

// acc[4 pairs, 4 pairs] += a b^T over `steps` groups of four.
inline void multiply(const uint16_t* a, const uint16_t* b, int steps, float32x4_t (&acc)[4][4]) {
  for (int step = 0; step < steps; ++step, a += 32, b += 32) {
    bfloat16x8_t left[4];
    bfloat16x8_t right[4];
    for (int i = 0; i < 4; ++i) left[i] = load_bf16(a + 8 * i);
    for (int j = 0; j < 4; ++j) right[j] = load_bf16(b + 8 * j);
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 4; ++j) acc[i][j] = vbfmmlaq_f32(acc[i][j], left[i], right[j]);
    }
  }
}

struct NeonBf16Prefill {
  using Element = uint16_t;
  static constexpr int kRows = 8;
  static constexpr int kKeys = 128;
  static int padded_dim(int head_dim) { return head_dim; }
  // S as fp32 [key / 8, 4 row pairs, 4 key pairs, 2x2] and P as bf16 [key / 4, 4 row pairs, 2, 4].
  static size_t work_bytes(int) { return kRows * kKeys * (sizeof(float) + sizeof(uint16_t)); }
  struct Session {
    explicit Session(int) {}
  };

  // [dim / 4, row pair, 2 rows, 4 dims]
  static void pack_queries(const float* const* rows, int count, int dim, float scale, uint16_t* to) {
    for (int row = 0; row < kRows; ++row) {
      for (int d = 0; d < dim; d += 4) {
        const float32x4_t q = row < count ? vmulq_n_f32(vld1q_f32(rows[row] + d), scale) : vdupq_n_f32(0);
        vst1_u16(to + d * kRows + row * 4, vreinterpret_u16_bf16(vcvt_bf16_f32(q)));
      }
    }
  }

  // [key / 8, dim / 4, key pair, 2 keys, 4 dims]
  static void pack_keys(const void* const* rows, int count, DType, int dim, uint16_t* to) {
    for (int key = 0; key < kKeys; key += 2) {
      uint16_t* block = to + (key / 8) * 8 * dim + (key % 8) * 4;
      for (int d = 0; d < dim; d += 8) {
        const uint64x2_t k0 = load_or_zero(rows, key, count, d);
        const uint64x2_t k1 = load_or_zero(rows, key + 1, count, d);
        vst1q_u16(block + d * 8, vreinterpretq_u16_u64(vzip1q_u64(k0, k1)));
        vst1q_u16(block + d * 8 + 32, vreinterpretq_u16_u64(vzip2q_u64(k0, k1)));
      }
    }
  }

  // [dim / 8, key / 4, dim pair, 2 dims, 4 keys]
  static void pack_values(const void* const* rows, int count, DType, int dim, uint16_t* to) {
    for (int key = 0; key < kKeys; key += 4) {
      for (int d = 0; d < dim; d += 8) {
        uint16x8_t v[4];
        for (int j = 0; j < 4; ++j) v[j] = vreinterpretq_u16_u64(load_or_zero(rows, key + j, count, d));
        const uint32x4_t a = vreinterpretq_u32_u16(vzip1q_u16(v[0], v[1]));
        const uint32x4_t b = vreinterpretq_u32_u16(vzip1q_u16(v[2], v[3]));
        const uint32x4_t c = vreinterpretq_u32_u16(vzip2q_u16(v[0], v[1]));
        const uint32x4_t e = vreinterpretq_u32_u16(vzip2q_u16(v[2], v[3]));
        uint16_t* at = to + d * kKeys + key * 8;
        vst1q_u16(at, vreinterpretq_u16_u32(vzip1q_u32(a, b)));
        vst1q_u16(at + 8, vreinterpretq_u16_u32(vzip2q_u32(a, b)));
        vst1q_u16(at + 16, vreinterpretq_u16_u32(vzip1q_u32(c, e)));
        vst1q_u16(at + 24, vreinterpretq_u16_u32(vzip2q_u32(c, e)));
      }
    }
  }

  static void attend(const RowBlock<NeonBf16Prefill>& block, const uint16_t* keys, const uint16_t* values, int dim,
                     void* work) {
    if (block.masked) {
      attend_tile<true>(block, keys, values, dim, work);
    } else {
      attend_tile<false>(block, keys, values, dim, work);
    }
  }

  // out is [dim / 8, row pair, dim pair, 2 rows, 2 dims].
  static void finish(const RowBlock<NeonBf16Prefill>& block, int count, int dim, float* const* rows) {
    for (int row = 0; row < count; ++row) {
      const float inverse = block.sum[row] > 0 ? 1.0f / block.sum[row] : 0.0f;
      for (int d = 0; d < dim; d += 2) {
        const float* at = block.out + (d / 8) * 64 + (row / 2) * 16 + (d % 8) / 2 * 4 + (row % 2) * 2;
        rows[row][d] = at[0] * inverse;
        rows[row][d + 1] = at[1] * inverse;
      }
    }
  }

 private:
  static uint64x2_t load_or_zero(const void* const* rows, int key, int count, int d) {
    if (key >= count) return vdupq_n_u64(0);
    return vreinterpretq_u64_u16(vld1q_u16(static_cast<const uint16_t*>(rows[key]) + d));
  }

  // Two rows' numbers as the lanes {row 0, row 0, row 1, row 1} of a 2x2 result.
  static float32x4_t pair_lanes(const float* two) { return vcombine_f32(vdup_n_f32(two[0]), vdup_n_f32(two[1])); }
  static int32x4_t pair_lanes(const int32_t* two) { return vcombine_s32(vdup_n_s32(two[0]), vdup_n_s32(two[1])); }

  // Which of the 2x2 lanes of keys {key, key + 1} a row pair sees.
  static uint32x4_t visible(int key, int32x4_t begin, int32x4_t end) {
    const int32_t odd[4] = {0, 1, 0, 1};
    const int32x4_t index = vaddq_s32(vdupq_n_s32(key), vld1q_s32(odd));
    return vandq_u32(vcgeq_s32(index, begin), vcltq_s32(index, end));
  }

  template <bool kMasked>
  static void attend_tile(const RowBlock<NeonBf16Prefill>& block, const uint16_t* keys, const uint16_t* values, int dim,
                          void* work) {
    float* s = static_cast<float*>(work);
    uint16_t* p = reinterpret_cast<uint16_t*>(s + kRows * kKeys);
    const int first = kMasked ? block.first / 8 * 8 : 0;
    const int last = kMasked ? (block.last + 7) / 8 * 8 : kKeys;
    int32x4_t begin[4];
    int32x4_t end[4];
    float32x4_t highest[4];
    for (int i = 0; i < 4; ++i) {
      highest[i] = vdupq_n_f32(kNoScore);
      begin[i] = pair_lanes(block.begin + 2 * i);
      end[i] = pair_lanes(block.end + 2 * i);
    }

    for (int key = first; key < last; key += 8) {
      float32x4_t acc[4][4] = {};
      multiply(block.q, keys + key * dim, dim / 4, acc);
      for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j) {
          vst1q_f32(s + key * kRows + i * 16 + j * 4, acc[i][j]);
          if constexpr (kMasked)
            acc[i][j] = vbslq_f32(visible(key + 2 * j, begin[i], end[i]), acc[i][j], vdupq_n_f32(kNoScore));
          highest[i] = vmaxq_f32(highest[i], acc[i][j]);
        }
      }
    }

    float32x4_t correction[4];
    float32x4_t sum[4];
    for (int i = 0; i < 4; ++i) {
      const float32x4_t before = pair_lanes(block.max + 2 * i);
      const float32x4_t swapped = vrev64q_f32(highest[i]);
      highest[i] = vmaxq_f32(before, vmaxq_f32(highest[i], swapped));
      correction[i] = exp2_neon<4>(vsubq_f32(before, highest[i]));
      sum[i] = vdupq_n_f32(0);
      block.max[2 * i] = vgetq_lane_f32(highest[i], 0);
      block.max[2 * i + 1] = vgetq_lane_f32(highest[i], 2);
    }

    for (int key = first; key < last; key += 8) {
      for (int i = 0; i < 4; ++i) {
        float32x4_t weight[4];
        for (int j = 0; j < 4; ++j) {
          weight[j] = exp2_neon<4>(vsubq_f32(vld1q_f32(s + key * kRows + i * 16 + j * 4), highest[i]));
          if constexpr (kMasked) {
            const uint32x4_t seen = visible(key + 2 * j, begin[i], end[i]);
            weight[j] = vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(weight[j]), seen));
          }
        }
        sum[i] = vaddq_f32(sum[i], vaddq_f32(vaddq_f32(weight[0], weight[1]), vaddq_f32(weight[2], weight[3])));
        for (int half = 0; half < 2; ++half)
          vst1q_u16(p + key * kRows + half * 32 + i * 8, pair_operand(weight[2 * half], weight[2 * half + 1]));
      }
    }
    for (int i = 0; i < 4; ++i) {
      const float32x4_t total = vaddq_f32(sum[i], vrev64q_f32(sum[i]));
      block.sum[2 * i] = block.sum[2 * i] * vgetq_lane_f32(correction[i], 0) + vgetq_lane_f32(total, 0);
      block.sum[2 * i + 1] = block.sum[2 * i + 1] * vgetq_lane_f32(correction[i], 2) + vgetq_lane_f32(total, 2);
    }

    for (int d = 0; d < dim; d += 8) {
      float32x4_t acc[4][4];
      float* out = block.out + d * kRows;
      for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j) acc[i][j] = vmulq_f32(vld1q_f32(out + i * 16 + j * 4), correction[i]);
      }
      multiply(p + first * kRows, values + d * kKeys + first * 8, (last - first) / 4, acc);
      for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j) vst1q_f32(out + i * 16 + j * 4, acc[i][j]);
      }
    }
  }

  // Two 2x2 results (keys 0 1 and 2 3) as one bf16 operand {row 0: keys 0..3, row 1: keys 0..3}.
  static uint16x8_t pair_operand(float32x4_t keys01, float32x4_t keys23) {
    const bfloat16x8_t mixed = vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(keys01), keys23);
    // 32-bit elements {row 0, row 1 of keys 0 1, row 0, row 1 of keys 2 3} -> rows together.
    const uint8x16_t order = {0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15};
    return vreinterpretq_u16_u8(vqtbl1q_u8(vreinterpretq_u8_u16(vreinterpretq_u16_bf16(mixed)), order));
  }
};

bool usable() { return (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0; }
bool accepts(DType key_type, DType value_type) { return key_type == DType::kBF16 && value_type == DType::kBF16; }

}  // namespace

const AttentionVariant& neonbf16_attention() {
  using Flash = FlashVariant<NeonBf16Prefill, NeonDecode>;
  static constexpr AttentionVariant kVariant{.name = "neonbf16",
                                             .usable = usable,
                                             .accepts = accepts,
                                             .scratch_bytes = Flash::scratch_bytes,
                                             .run = Flash::run};
  return kVariant;
}

}  // namespace ei::kernels

#endif
