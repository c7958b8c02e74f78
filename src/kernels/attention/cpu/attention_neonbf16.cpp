// Attention for ARM CPUs with the bf16 matrix instruction (inner loops in neon_bfmmla.h). A block is five pairs of
// rows; scores and outputs stay in the 2x2 form in which the instruction leaves them.
#if defined(__aarch64__)

#include "kernels/attention/cpu/flash_variant.h"
#include "kernels/attention/cpu/neonbf16_decode.h"
#include "kernels/simd/arm_features.h"
#include "kernels/simd/neon.h"
#include "kernels/simd/neon_bfmmla.h"
#include "kernels/variants.h"

namespace ei::kernels {
namespace {

struct NeonBf16Prefill {
  using Element = uint16_t;
  static constexpr int kRows = 2 * kRowPairs;
  static constexpr int kKeys = 128;
  static int padded_dim(int head_dim) { return head_dim; }
  // S as fp32 [key / 8, row pair, key pair, 2x2] and P as bf16 [key / 8, row pair, half, 2, 4].
  static size_t work_bytes(int) { return kRows * kKeys * (sizeof(float) + sizeof(uint16_t)); }
  struct Session {
    explicit Session(int) {}
  };

  // [dim / 8, row pair, half, 2 rows, 4 dims]
  static void pack_queries(const float* const* rows, int count, int dim, float scale, uint16_t* to) {
    for (int row = 0; row < kRows; ++row) {
      for (int d = 0; d < dim; d += 4) {
        const float32x4_t q = row < count ? vmulq_n_f32(vld1q_f32(rows[row] + d), scale) : vdupq_n_f32(0);
        uint16_t* at = to + d / 8 * 8 * kRows + row / 2 * 16 + d % 8 * 2 + row % 2 * 4;
        vst1_u16(at, vreinterpret_u16_bf16(vcvt_bf16_f32(q)));
      }
    }
  }

  // [key / 8, dim / 4, key pair, 2 keys, 4 dims]
  static void pack_keys(const void* const* rows, int count, DType, int dim, uint16_t* to) {
    for (int key = 0; key < kKeys; key += 2) {
      uint16_t* block = to + key / 8 * 8 * dim + key % 8 * 4;
      for (int d = 0; d < dim; d += 8) {
        const uint64x2_t k0 = load_or_zero(rows, key, count, d);
        const uint64x2_t k1 = load_or_zero(rows, key + 1, count, d);
        vst1q_u16(block + d * 8, vreinterpretq_u16_u64(vzip1q_u64(k0, k1)));
        vst1q_u16(block + d * 8 + 32, vreinterpretq_u16_u64(vzip2q_u64(k0, k1)));
      }
    }
  }

  // [dim / 8, key / 4, dim pair, 2 dims, keys 0 2 1 3]: the order in which weigh() leaves the weights.
  static void pack_values(const void* const* rows, int count, DType, int dim, uint16_t* to) {
    for (int key = 0; key < kKeys; key += 4) {
      for (int d = 0; d < dim; d += 8) {
        uint16x8_t v[4];
        for (int j = 0; j < 4; ++j) v[j] = vreinterpretq_u16_u64(load_or_zero(rows, key + j, count, d));
        const uint32x4_t low02 = vreinterpretq_u32_u16(vzip1q_u16(v[0], v[2]));
        const uint32x4_t low13 = vreinterpretq_u32_u16(vzip1q_u16(v[1], v[3]));
        const uint32x4_t high02 = vreinterpretq_u32_u16(vzip2q_u16(v[0], v[2]));
        const uint32x4_t high13 = vreinterpretq_u32_u16(vzip2q_u16(v[1], v[3]));
        uint16_t* at = to + d * kKeys + key * 8;
        vst1q_u16(at, vreinterpretq_u16_u32(vzip1q_u32(low02, low13)));
        vst1q_u16(at + 8, vreinterpretq_u16_u32(vzip2q_u32(low02, low13)));
        vst1q_u16(at + 16, vreinterpretq_u16_u32(vzip1q_u32(high02, high13)));
        vst1q_u16(at + 24, vreinterpretq_u16_u32(vzip2q_u32(high02, high13)));
      }
    }
  }

  static void attend(const RowBlock<NeonBf16Prefill>& block, const uint16_t* keys, const uint16_t* values, int dim,
                     void* work) {
    float* s = static_cast<float*>(work);
    uint16_t* p = reinterpret_cast<uint16_t*>(s + kRows * kKeys);
    const int first = block.first / 16 * 16;
    const int last = (block.last + 15) / 16 * 16;
    Rows rows;
    score(block, keys, dim, first, last, s);
    if (block.masked) {
      highest<true>(block, first, last, s, rows);
    } else {
      highest<false>(block, first, last, s, rows);
    }
    if (follow_maximum(block, rows)) shift(block, rows, first, last, dim, s);
    weigh(s + first * kRows, (last - first) * kRows / 4, p + first * kRows);
    if (block.masked) mask(block, first, last, p);
    add_sums(block, first, last, p);
    for (int d = 0; d < dim; d += 8) {
      float* out = block.out + d * kRows;
      multiply(p + first * kRows, values + d * kKeys + first * 8, (last - first) / 8, out, out);
    }
  }

  // out is [dim / 8, row pair, dim pair, 2 rows, 2 dims].
  static void finish(const RowBlock<NeonBf16Prefill>& block, int count, int dim, float* const* rows) {
    for (int row = 0; row < count; ++row) {
      const float inverse = block.sum[row] > 0 ? 1.0f / block.sum[row] : 0.0f;
      for (int d = 0; d < dim; d += 2) {
        const float* at = block.out + d / 8 * 8 * kRows + row / 2 * 16 + d % 8 * 2 + row % 2 * 2;
        rows[row][d] = at[0] * inverse;
        rows[row][d + 1] = at[1] * inverse;
      }
    }
  }

 private:
  // Per row pair, in the lanes {row 0, row 0, row 1, row 1} of a 2x2 result.
  struct Rows {
    float32x4_t highest[kRowPairs];  // of the scores of this tile, less the maximum so far
    float32x4_t shift[kRowPairs];    // by how much the maximum grows
  };
  static float32x4_t pair_lanes(const float* two) { return vcombine_f32(vdup_n_f32(two[0]), vdup_n_f32(two[1])); }
  static int32x4_t pair_lanes(const int32_t* two) { return vcombine_s32(vdup_n_s32(two[0]), vdup_n_s32(two[1])); }

  static uint64x2_t load_or_zero(const void* const* rows, int key, int count, int d) {
    if (key >= count) return vdupq_n_u64(0);
    return vreinterpretq_u64_u16(vld1q_u16(static_cast<const uint16_t*>(rows[key]) + d));
  }

  // S = Q K^T - max; a row that has seen nothing yet has no maximum to take off.
  static void score(const RowBlock<NeonBf16Prefill>& block, const uint16_t* keys, int dim, int first, int last,
                    float* s) {
    float start[8 * kRows];
    for (int i = 0; i < kRowPairs; ++i) {
      const float32x4_t max = pair_lanes(block.max + 2 * i);
      const uint32x4_t seen = vcgtq_f32(max, vdupq_n_f32(kNoScore));
      const float32x4_t minus = vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(vnegq_f32(max)), seen));
      for (int j = 0; j < kColumnPairs; ++j) vst1q_f32(start + i * 16 + j * 4, minus);
    }
    for (int key = first; key < last; key += 8) multiply(block.q, keys + key * dim, dim / 8, start, s + key * kRows);
  }

  template <bool kMasked>
  static void highest(const RowBlock<NeonBf16Prefill>& block, int first, int last, const float* s, Rows& rows) {
    for (int i = 0; i < kRowPairs; ++i) {
      float32x4_t high[kColumnPairs];
      for (auto& lanes : high) lanes = vdupq_n_f32(kNoScore);
      const int32_t odd[4] = {0, 1, 0, 1};
      const int32x4_t begin = vsubq_s32(pair_lanes(block.begin + 2 * i), vld1q_s32(odd));
      const int32x4_t end = vsubq_s32(pair_lanes(block.end + 2 * i), vld1q_s32(odd));
      for (int key = first; key < last; key += 8) {
        for (int j = 0; j < kColumnPairs; ++j) {
          float32x4_t score = vld1q_f32(s + key * kRows + i * 16 + j * 4);
          if constexpr (kMasked) {
            const int32x4_t at = vdupq_n_s32(key + 2 * j);
            const uint32x4_t visible = vandq_u32(vcgeq_s32(at, begin), vcltq_s32(at, end));
            score = vbslq_f32(visible, score, vdupq_n_f32(kNoScore));
          }
          high[j] = vmaxq_f32(high[j], score);
        }
      }
      const float32x4_t both = vmaxq_f32(vmaxq_f32(high[0], high[1]), vmaxq_f32(high[2], high[3]));
      rows.highest[i] = vmaxq_f32(both, vrev64q_f32(both));
    }
  }

  // Moves the maxima that must move; says whether any did.
  static bool follow_maximum(const RowBlock<NeonBf16Prefill>& block, Rows& rows) {
    uint32x4_t any = vdupq_n_u32(0);
    for (int i = 0; i < kRowPairs; ++i) {
      const float32x4_t max = pair_lanes(block.max + 2 * i);
      const uint32x4_t none = vceqq_f32(max, vdupq_n_f32(kNoScore));
      const uint32x4_t first_seen = vandq_u32(none, vcgtq_f32(rows.highest[i], vdupq_n_f32(kNoScore)));
      const uint32x4_t moves = vorrq_u32(first_seen, vcgtq_f32(rows.highest[i], vdupq_n_f32(kLazyMax)));
      rows.shift[i] = vreinterpretq_f32_u32(vandq_u32(moves, vreinterpretq_u32_f32(rows.highest[i])));
      const float32x4_t from = vbslq_f32(first_seen, vdupq_n_f32(0), max);
      const float32x4_t moved = vaddq_f32(from, rows.shift[i]);
      block.max[2 * i] = vgetq_lane_f32(moved, 0);
      block.max[2 * i + 1] = vgetq_lane_f32(moved, 2);
      any = vorrq_u32(any, moves);
    }
    return vmaxvq_u32(any) != 0;
  }

  // Brings scores, sums and outputs to the moved maxima.
  static void shift(const RowBlock<NeonBf16Prefill>& block, const Rows& rows, int first, int last, int dim, float* s) {
    for (int i = 0; i < kRowPairs; ++i) {
      for (int key = first; key < last; key += 8) {
        for (int j = 0; j < kColumnPairs; ++j) {
          float* at = s + key * kRows + i * 16 + j * 4;
          vst1q_f32(at, vsubq_f32(vld1q_f32(at), rows.shift[i]));
        }
      }
      // The first maximum of a row may be of either sign, and has nothing to correct.
      const float32x4_t correction = Exp2::of(vminq_f32(vnegq_f32(rows.shift[i]), vdupq_n_f32(0)));
      block.sum[2 * i] *= vgetq_lane_f32(correction, 0);
      block.sum[2 * i + 1] *= vgetq_lane_f32(correction, 2);
      for (int d = 0; d < dim; d += 8) {
        for (int j = 0; j < kColumnPairs; ++j) {
          float* at = block.out + d * kRows + i * 16 + j * 4;
          vst1q_f32(at, vmulq_f32(vld1q_f32(at), correction));
        }
      }
    }
  }

  // Weights of keys that a row does not see become 0.
  static void mask(const RowBlock<NeonBf16Prefill>& block, int first, int last, uint16_t* p) {
    const int16_t order[8] = {0, 2, 1, 3, 0, 2, 1, 3};
    for (int i = 0; i < kRowPairs; ++i) {
      const int32_t* begin = block.begin + 2 * i;
      const int32_t* end = block.end + 2 * i;
      const auto lanes = [](const int32_t* two) {
        return vcombine_s16(vdup_n_s16(static_cast<int16_t>(two[0])), vdup_n_s16(static_cast<int16_t>(two[1])));
      };
      for (int key = first; key < last; key += 4) {
        const int16x8_t index = vaddq_s16(vdupq_n_s16(static_cast<int16_t>(key)), vld1q_s16(order));
        const uint16x8_t visible = vandq_u16(vcgeq_s16(index, lanes(begin)), vcltq_s16(index, lanes(end)));
        uint16_t* at = p + key / 8 * 8 * kRows + i * 16 + key % 8 * 2;
        vst1q_u16(at, vandq_u16(vld1q_u16(at), visible));
      }
    }
  }

  // sum += P 1, of the weights as they are multiplied.
  static void add_sums(const RowBlock<NeonBf16Prefill>& block, int first, int last, const uint16_t* p) {
    uint16_t one = 0x3f80;
    asm("" : "+r"(one));  // GCC 12 would write a visible bf16 constant as a half-precision one
    const bfloat16x8_t ones = vreinterpretq_bf16_u16(vdupq_n_u16(one));
    float32x4_t sums[kRowPairs][2];
    for (auto& pair : sums) pair[0] = pair[1] = vdupq_n_f32(0);
    for (int key = first; key < last; key += 8) {
      for (int i = 0; i < kRowPairs; ++i) {
        for (int half = 0; half < 2; ++half) {
          const bfloat16x8_t weights = vreinterpretq_bf16_u16(vld1q_u16(p + key * kRows + i * 16 + half * 8));
          sums[i][half] = vbfmmlaq_f32(sums[i][half], weights, ones);
        }
      }
    }
    for (int i = 0; i < kRowPairs; ++i) {
      const float32x4_t sum = vaddq_f32(sums[i][0], sums[i][1]);
      block.sum[2 * i] += vgetq_lane_f32(sum, 0);
      block.sum[2 * i + 1] += vgetq_lane_f32(sum, 2);
    }
  }
};

bool accepts(DType key_type, DType value_type) { return key_type == DType::kBF16 && value_type == DType::kBF16; }

}  // namespace

const AttentionVariant& neonbf16_attention() {
  using Flash = FlashVariant<NeonBf16Prefill, NeonBf16Decode>;
  static constexpr AttentionVariant kVariant{.name = "neonbf16",
                                             .usable = cpu_has_bf16,
                                             .accepts = accepts,
                                             .scratch_bytes = Flash::scratch_bytes,
                                             .run = Flash::run};
  return kVariant;
}

}  // namespace ei::kernels

#endif
