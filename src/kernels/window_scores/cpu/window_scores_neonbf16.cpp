// Window scores over bf16 keys on ARM CPUs with BFMMLA, which multiplies two rows of four bf16 by two rows of four. A
// query is split into two bf16 whose sum keeps sixteen bits of it, so nothing is lost that matters to a ranking, and
// the two products still take half the time of one in floats.
#if defined(__aarch64__)
#include <arm_neon.h>

#include "kernels/simd/arm_features.h"
#include "kernels/simd/vec_neon.h"
#include "kernels/window_scores/cpu/attention_sums_loops.h"

namespace ei::kernels {
namespace {

struct Bf16Product : WindowTile {
  static constexpr int kQueryWords = 1;  // two bf16
  static constexpr int kPairs = kRows / 2;

  static bool accepts(const KvView& kv) { return kv.key_type == DType::kBF16 && kv.head_dim % 8 == 0; }

  // [dim / 4, part, pair of rows, 2, 4]: part 0 the upper half of each element, part 1 what is left.
  static void pack(const float* q, int row, int32_t dim, void* queries) {
    auto* to = static_cast<uint16_t*>(queries) + row * 4;
    for (int32_t d = 0; d < dim; ++d) {
      const float value = q != nullptr ? q[d] : 0.0f;
      const uint16_t upper = f32_to_bf16(value);
      uint16_t* at = to + d / 4 * (2 * kRows * 4) + d % 4;
      at[0] = upper;
      at[kRows * 4] = f32_to_bf16(value - bf16_to_f32(upper));
    }
  }

  static void multiply(const void* queries, const KvView& kv, const KvHeadView& head, int64_t slot, int64_t end,
                       float* keys, float* logits) {
    const int64_t dim = kv.head_dim;
    auto* zeros = reinterpret_cast<uint16_t*>(keys);
    for (int64_t d = 0; d < dim && slot + kTile > end; ++d) zeros[d] = 0;
    for (int64_t key = 0; key < kTile; key += kKeys) {
      const uint16_t* rows[kKeys];
      for (int64_t k = 0; k < kKeys; ++k) {
        const int64_t at = slot + key + k;
        rows[k] = at < end ? static_cast<const uint16_t*>(head.key_pages[at / kv.page_slots]) + at % kv.page_slots * dim
                           : zeros;
      }
      multiply_keys(static_cast<const uint16_t*>(queries), rows, dim, logits + key * kRows);
    }
  }

 private:
  static bfloat16x8_t load(const uint16_t* from) { return vreinterpretq_bf16_u16(vld1q_u16(from)); }
  static bfloat16x8_t pair(uint16x8_t first, uint16x8_t second, bool upper) {
    const auto a = vreinterpretq_u64_u16(first);
    const auto b = vreinterpretq_u64_u16(second);
    return vreinterpretq_bf16_u64(upper ? vzip2q_u64(a, b) : vzip1q_u64(a, b));
  }

  // Not inlined: on its own it keeps its sums in registers.
  [[gnu::noinline]] static void multiply_keys(const uint16_t* queries, const uint16_t* const (&rows)[kKeys],
                                              int64_t dim, float* logits) {
    float32x4_t sums[2][kPairs];  // {k0 q0, k0 q1, k1 q0, k1 q1}
    for (auto& keys : sums)
      for (float32x4_t& lanes : keys) lanes = vdupq_n_f32(0);
    for (int64_t d = 0; d < dim; d += 8) {
      const uint16x8_t key[kKeys] = {vld1q_u16(rows[0] + d), vld1q_u16(rows[1] + d), vld1q_u16(rows[2] + d),
                                     vld1q_u16(rows[3] + d)};
      for (const bool upper : {false, true}) {
        const bfloat16x8_t first = pair(key[0], key[1], upper);
        const bfloat16x8_t second = pair(key[2], key[3], upper);
        for (int part = 0; part < 2; ++part, queries += kRows * 4) {
          for (int p = 0; p < kPairs; ++p) {
            const bfloat16x8_t q = load(queries + p * 8);
            sums[0][p] = vbfmmlaq_f32(sums[0][p], first, q);
            sums[1][p] = vbfmmlaq_f32(sums[1][p], second, q);
          }
        }
      }
    }
    for (int k = 0; k < 2; ++k) {
      for (int p = 0; p < kPairs; p += 2) {
        const auto low = vreinterpretq_f64_f32(sums[k][p]);
        const auto high = vreinterpretq_f64_f32(sums[k][p + 1]);
        vst1q_f32(logits + 2 * k * kRows + p * 2, vreinterpretq_f32_f64(vzip1q_f64(low, high)));
        vst1q_f32(logits + (2 * k + 1) * kRows + p * 2, vreinterpretq_f32_f64(vzip2q_f64(low, high)));
      }
    }
  }
};

}  // namespace

const WindowVariant& neonbf16_window() {
  static constexpr WindowVariant kVariant = make_window_variant<Vec4, Bf16Product>("neonbf16", cpu_has_bf16);
  return kVariant;
}

}  // namespace ei::kernels
#endif
