// Attention for ARM CPUs with half-precision arithmetic, over caches of f16 and q8_0 (products in neon_fp16.h). A lane
// is a row: scores, weights and outputs are [key or dim, 16 rows], so the softmax never adds across lanes.
#if defined(__aarch64__)

#include <algorithm>

#include "kernels/attention/cpu/flash_variant.h"
#include "kernels/attention/cpu/neonfp16_decode.h"
#include "kernels/attention/cpu/neonfp16_q8.h"
#include "kernels/attention/cpu/neonfp16_softmax.h"
#include "kernels/simd/arm_features.h"
#include "kernels/simd/neon.h"
#include "kernels/simd/neon_fp16.h"
#include "kernels/simd/neon_wide_dot.h"
#include "kernels/variants.h"

namespace ei::kernels {
namespace {

// Behind the numbers of a packed block or tile lie a few floats about it: eight halves for every row or key.
struct QueryFacts {
  float step[kLaneRows];  // what a one of the row's integers stands for
};
struct KeyFacts {
  float step[128];
};
struct ValueFacts {
  float largest;  // of all elements, by size
};

struct NeonFp16Prefill {
  using Element = uint16_t;  // a half or two bytes
  static constexpr int kRows = kLaneRows;
  static constexpr int kKeys = 128;
  static constexpr int kFacts = 8;
  static_assert(sizeof(QueryFacts) <= kFacts * kRows * sizeof(Element));
  static_assert(sizeof(KeyFacts) <= kFacts * kKeys * sizeof(Element));
  static int padded_dim(int head_dim) { return head_dim + kFacts; }
  // S as fp32 and P as halves, both [key, row].
  static size_t work_bytes(int) { return kRows * kKeys * (sizeof(float) + sizeof(float16_t)); }
  struct Session {
    explicit Session(int) {}
  };

  // [row / 8, panel of neon_wide_dot.h]
  static void pack_queries(const float* const* rows, int count, int dim, float scale, uint16_t* to) {
    auto& facts = *reinterpret_cast<QueryFacts*>(to + dim * kRows);
    for (int row = 0; row < kRows; ++row) {
      float largest = 0;
      for (int d = 0; d < dim && row < count; ++d) largest = std::max(largest, std::abs(rows[row][d] * scale));
      facts.step[row] = largest / kWideLargest * 256;
      const float factor = largest > 0 ? scale * (kWideLargest / largest) : 0.0f;
      int8_t* panel = reinterpret_cast<int8_t*>(to + row / 8 * 8 * dim);
      for (int d = 0; d < dim; d += 8) {
        const float zeros[8] = {};
        const float* from = row < count ? rows[row] + d : zeros;
        store_wide(vmulq_n_f32(vld1q_f32(from), factor), vmulq_n_f32(vld1q_f32(from + 4), factor), row % 8, d, panel);
      }
    }
  }

  // [key / 8, panel of neon_wide_dot.h]
  static void pack_keys(const void* const* rows, int count, DType, int dim, uint16_t* to) {
    auto& facts = *reinterpret_cast<KeyFacts*>(to + dim * kKeys);
    for (int key = 0; key < kKeys; ++key) {
      float16x8_t most = vdupq_n_f16(0);
      for (int d = 0; d < dim; d += 8) most = vmaxq_f16(most, vabsq_f16(load_or_zero(rows, key, count, d)));
      const float largest = static_cast<float>(vmaxvq_f16(most));
      facts.step[key] = largest / kWideLargest;
      const float factor = largest > 0 ? kWideLargest / largest : 0.0f;
      int8_t* panel = reinterpret_cast<int8_t*>(to + key / 8 * 8 * dim);
      for (int d = 0; d < dim; d += 8) {
        const float16x8_t in = load_or_zero(rows, key, count, d);
        store_wide(vmulq_n_f32(vcvt_f32_f16(vget_low_f16(in)), factor), vmulq_n_f32(vcvt_high_f32_f16(in), factor),
                   key % 8, d, panel);
      }
    }
  }

  // [dim / 8, key, 8 dims]
  static void pack_values(const void* const* rows, int count, DType, int dim, uint16_t* to) {
    float16x8_t largest = vdupq_n_f16(0);
    for (int key = 0; key < kKeys; ++key) {
      for (int d = 0; d < dim; d += 8) {
        const float16x8_t in = load_or_zero(rows, key, count, d);
        largest = vmaxq_f16(largest, vabsq_f16(in));
        vst1q_u16(to + d * kKeys + key * 8, vreinterpretq_u16_f16(in));
      }
    }
    reinterpret_cast<ValueFacts*>(to + dim * kKeys)->largest = static_cast<float>(vmaxvq_f16(largest));
  }

  static void attend(const RowBlock<NeonFp16Prefill>& block, const uint16_t* keys, const uint16_t* values, int dim,
                     void* work) {
    float* s = static_cast<float*>(work);
    float16_t* p = reinterpret_cast<float16_t*>(s + kRows * kKeys);
    // Runs of half-precision sums begin at the same keys whatever rows a block holds.
    const int first = block.first / kHalfRun * kHalfRun;
    const int last = (block.last + 7) / 8 * 8;
    score(block, keys, dim, first, last, s);
    LaneSoftmax softmax(block.max, block.sum, block.begin, block.end, s, first, last);
    if (block.masked) softmax.mask();
    if (softmax.follow_maximum()) softmax.rescale(block.out, dim);
    const float most = block.masked ? softmax.weigh<true>(p) : softmax.weigh<false>(p);
    const auto& facts = *reinterpret_cast<const ValueFacts*>(values + dim * kKeys);
    const bool safe = most * facts.largest < kSafeSum;
    for (int d = 0; d < dim; d += 8) {
      float* out = block.out + d * kRows;
      for (int key = first; key < last; key += kHalfRun) {
        const auto* v = reinterpret_cast<const float16_t*>(values + d * kKeys + key * 8);
        const int run = std::min(kHalfRun, last - key);
        safe ? add_half_products(v, p + key * kRows, run, out) : add_carefully(v, p + key * kRows, run, out);
      }
    }
  }

  // out is [dim, row].
  static void finish(const RowBlock<NeonFp16Prefill>& block, int count, int dim, float* const* rows) {
    for (int row = 0; row < count; ++row) {
      const float inverse = block.sum[row] > 0 ? 1.0f / block.sum[row] : 0.0f;
      for (int d = 0; d < dim; ++d) rows[row][d] = block.out[d * kRows + row] * inverse;
    }
  }

 private:
  // Sums of half precision that stay below this cannot overflow, whatever their rounding adds.
  static constexpr float kSafeSum = 60000;

  static float16x8_t load_or_zero(const void* const* rows, int key, int count, int d) {
    return key < count ? vld1q_f16(static_cast<const float16_t*>(rows[key]) + d) : vdupq_n_f16(0);
  }

  // S = Q K^T - max; a row that has seen nothing yet has no maximum to take off.
  static void score(const RowBlock<NeonFp16Prefill>& block, const uint16_t* keys, int dim, int first, int last,
                    float* s) {
    const auto& query = *reinterpret_cast<const QueryFacts*>(block.q + dim * kRows);
    const auto& key_facts = *reinterpret_cast<const KeyFacts*>(keys + dim * kKeys);
    float start[kRows];
    for (int row = 0; row < kRows; ++row) start[row] = block.max[row] > kNoScore ? -block.max[row] : 0.0f;
    for (int key = first; key < last; key += 8) {
      const auto* panel = reinterpret_cast<const int8_t*>(keys + key * dim);
      for (int row = 0; row < kRows; row += 8) {
        const WideSums sums = multiply_wide(panel, reinterpret_cast<const int8_t*>(block.q + row * dim), dim);
        for (int i = 0; i < 8; ++i) {
          for (int v = 0; v < 2; ++v) {
            const int at = row + 4 * v;
            const float32x4_t product = vmulq_f32(vcvtq_f32_s32(sums.at[i][v]), vld1q_f32(query.step + at));
            vst1q_f32(s + (key + i) * kRows + at, vfmaq_n_f32(vld1q_f32(start + at), product, key_facts.step[key + i]));
          }
        }
      }
    }
  }

  // out[8 dims, 16 rows] += v[keys, 8 dims]^T p[keys, 16 rows], where sums may overflow: those are taken in fp32.
  static void add_carefully(const float16_t* v, const float16_t* p, int count, float* out) {
    float sums[8 * kRows] = {};
    add_half_products(v, p, count, sums);
    for (int i = 0; i < 8 * kRows; ++i) {
      if (!std::isfinite(sums[i])) {
        sums[i] = 0;
        for (int key = 0; key < count; ++key)
          sums[i] += static_cast<float>(v[key * 8 + i / kRows]) * static_cast<float>(p[key * kRows + i % kRows]);
      }
      out[i] += sums[i];
    }
  }
};

bool usable() { return cpu_has_fp16() && cpu_has_dotprod(); }
bool accepts_one(DType type) { return type == DType::kF16 || type == DType::kQ8_0; }
bool accepts(DType key_type, DType value_type) { return accepts_one(key_type) && accepts_one(value_type); }

}  // namespace

const AttentionVariant& neonfp16_attention() {
  using Flash = FlashVariant<NeonFp16Prefill, NeonFp16Decode, Q8ToHalves>;
  static constexpr AttentionVariant kVariant{.name = "neonfp16",
                                             .usable = usable,
                                             .accepts = accepts,
                                             .scratch_bytes = Flash::scratch_bytes,
                                             .run = Flash::run};
  return kVariant;
}

}  // namespace ei::kernels

#endif
