// Attention for any ARMv8 CPU: fp32 fused multiply-add; keys and values of any type become fp32 when packed.
#if defined(__aarch64__)

#include "kernels/attention/cpu/flash_variant.h"
#include "kernels/attention/cpu/neon_decode.h"
#include "kernels/simd/neon.h"
#include "kernels/variants.h"

namespace ei::kernels {
namespace {

struct NeonPrefill {
  using Element = float;
  static constexpr int kRows = 8;
  static constexpr int kKeys = 128;
  static int padded_dim(int head_dim) { return head_dim; }
  static size_t work_bytes(int) { return kRows * kKeys * sizeof(float); }
  struct Session {
    explicit Session(int) {}
  };

  // Row-major [kRows, dim].
  static void pack_queries(const float* const* rows, int count, int dim, float scale, float* to) {
    for (int row = 0; row < kRows; ++row) {
      for (int d = 0; d < dim; ++d) to[row * dim + d] = row < count ? rows[row][d] * scale : 0.0f;
    }
  }

  // [key / 8, dim, 8 keys]
  static void pack_keys(const void* const* rows, int count, DType type, int dim, float* to) {
    with_type(type, [&](auto tag) {
      for (int key = 0; key < kKeys; key += 4) {
        float* block = to + (key / 8) * 8 * dim + key % 8;
        for (int d = 0; d < dim; d += 8) {
          float32x4x2_t in[4];
          for (int j = 0; j < 4; ++j) in[j] = load_or_zero<decltype(tag)::kType>(rows, key + j, count, d);
          for (int half = 0; half < 2; ++half) {
            const float32x4x2_t a = vtrnq_f32(in[0].val[half], in[1].val[half]);
            const float32x4x2_t b = vtrnq_f32(in[2].val[half], in[3].val[half]);
            float* column = block + (d + 4 * half) * 8;
            vst1q_f32(column, vcombine_f32(vget_low_f32(a.val[0]), vget_low_f32(b.val[0])));
            vst1q_f32(column + 8, vcombine_f32(vget_low_f32(a.val[1]), vget_low_f32(b.val[1])));
            vst1q_f32(column + 16, vcombine_f32(vget_high_f32(a.val[0]), vget_high_f32(b.val[0])));
            vst1q_f32(column + 24, vcombine_f32(vget_high_f32(a.val[1]), vget_high_f32(b.val[1])));
          }
        }
      }
    });
  }

  // [dim / 8, key, 8 dims]
  static void pack_values(const void* const* rows, int count, DType type, int dim, float* to) {
    with_type(type, [&](auto tag) {
      for (int key = 0; key < kKeys; ++key) {
        for (int d = 0; d < dim; d += 8) {
          const float32x4x2_t in = load_or_zero<decltype(tag)::kType>(rows, key, count, d);
          float* at = to + d * kKeys + key * 8;
          vst1q_f32(at, in.val[0]);
          vst1q_f32(at + 4, in.val[1]);
        }
      }
    });
  }

  static void attend(const RowBlock<NeonPrefill>& block, const float* keys, const float* values, int dim, void* work) {
    float* s = static_cast<float*>(work);  // [kRows, kKeys]: scores, then weights
    const int first = block.first / 8 * 8;
    const int last = (block.last + 7) / 8 * 8;
    for (int key = first; key < last; key += 8) {
      float32x4_t acc[8][2] = {};
      multiply(block.q, dim, keys + key * dim, dim, acc);
      for (int row = 0; row < kRows; ++row) {
        vst1q_f32(s + row * kKeys + key, acc[row][0]);
        vst1q_f32(s + row * kKeys + key + 4, acc[row][1]);
      }
    }
    float correction[kRows];
    for (int row = 0; row < kRows; ++row) {
      correction[row] = block.masked ? softmax<true>(block, row, first, last, s + row * kKeys)
                                     : softmax<false>(block, row, first, last, s + row * kKeys);
    }
    for (int d = 0; d < dim; d += 8) {
      float32x4_t acc[8][2];
      for (int row = 0; row < kRows; ++row) {
        for (int j = 0; j < 2; ++j)
          acc[row][j] = vmulq_n_f32(vld1q_f32(block.out + row * dim + d + 4 * j), correction[row]);
      }
      multiply(s + first, kKeys, values + d * kKeys + first * 8, last - first, acc);
      for (int row = 0; row < kRows; ++row) {
        for (int j = 0; j < 2; ++j) vst1q_f32(block.out + row * dim + d + 4 * j, acc[row][j]);
      }
    }
  }

  static void finish(const RowBlock<NeonPrefill>& block, int count, int dim, float* const* rows) {
    for (int row = 0; row < count; ++row) {
      const float inverse = block.sum[row] > 0 ? 1.0f / block.sum[row] : 0.0f;
      for (int d = 0; d < dim; ++d) rows[row][d] = block.out[row * dim + d] * inverse;
    }
  }

 private:
  template <DType kType>
  static float32x4x2_t load_or_zero(const void* const* rows, int key, int count, int d) {
    if (key < count) return load8<kType>(rows[key], d);
    return {{vdupq_n_f32(0), vdupq_n_f32(0)}};
  }

  // acc[8, 8] += a[8, depth] b[depth, 8]; rows of a lie `stride` apart, b is contiguous. Depth is a multiple of 4.
  static inline void multiply(const float* a, int stride, const float* b, int depth, float32x4_t (&acc)[8][2]) {
    for (int k = 0; k < depth; k += 4, b += 32) {
      float32x4_t left[8];
      for (int row = 0; row < 8; ++row) left[row] = vld1q_f32(a + row * stride + k);
#define EI_STEP(j)                                                  \
  {                                                                 \
    const float32x4_t b0 = vld1q_f32(b + 8 * j);                    \
    const float32x4_t b1 = vld1q_f32(b + 8 * j + 4);                \
    for (int row = 0; row < 8; ++row) {                             \
      acc[row][0] = vfmaq_laneq_f32(acc[row][0], b0, left[row], j); \
      acc[row][1] = vfmaq_laneq_f32(acc[row][1], b1, left[row], j); \
    }                                                               \
  }
      EI_STEP(0)
      EI_STEP(1)
      EI_STEP(2)
      EI_STEP(3)
#undef EI_STEP
    }
  }

  // Scores [first, last) of one row become weights; returns what earlier sums of the row must be multiplied by.
  template <bool kMasked>
  static float softmax(const RowBlock<NeonPrefill>& block, int row, int first, int last, float* s) {
    const int32_t lanes[4] = {0, 1, 2, 3};
    const int32x4_t begin = vdupq_n_s32(block.begin[row]);
    const int32x4_t end = vdupq_n_s32(block.end[row]);
    const auto visible = [&](int key) {
      const int32x4_t index = vaddq_s32(vdupq_n_s32(key), vld1q_s32(lanes));
      return vandq_u32(vcgeq_s32(index, begin), vcltq_s32(index, end));
    };
    float32x4_t high0 = vdupq_n_f32(kNoScore);
    float32x4_t high1 = high0;
    for (int key = first; key < last; key += 8) {
      float32x4_t s0 = vld1q_f32(s + key);
      float32x4_t s1 = vld1q_f32(s + key + 4);
      if constexpr (kMasked) {
        s0 = vbslq_f32(visible(key), s0, vdupq_n_f32(kNoScore));
        s1 = vbslq_f32(visible(key + 4), s1, vdupq_n_f32(kNoScore));
      }
      high0 = vmaxq_f32(high0, s0);
      high1 = vmaxq_f32(high1, s1);
    }
    const float before = block.max[row];
    const float highest = std::max(before, vmaxvq_f32(vmaxq_f32(high0, high1)));
    const float32x4_t max = vdupq_n_f32(highest);
    float32x4_t sum0 = vdupq_n_f32(0);
    float32x4_t sum1 = sum0;
    for (int key = first; key < last; key += 8) {
      float32x4_t p0 = Exp2::of(vsubq_f32(vld1q_f32(s + key), max));
      float32x4_t p1 = Exp2::of(vsubq_f32(vld1q_f32(s + key + 4), max));
      if constexpr (kMasked) {
        p0 = vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(p0), visible(key)));
        p1 = vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(p1), visible(key + 4)));
      }
      vst1q_f32(s + key, p0);
      vst1q_f32(s + key + 4, p1);
      sum0 = vaddq_f32(sum0, p0);
      sum1 = vaddq_f32(sum1, p1);
    }
    const float correction = vgetq_lane_f32(Exp2::of(vdupq_n_f32(before - highest)), 0);
    block.max[row] = highest;
    block.sum[row] = block.sum[row] * correction + vaddvq_f32(vaddq_f32(sum0, sum1));
    return correction;
  }
};

bool usable() { return true; }
bool accepts(DType, DType) { return true; }

}  // namespace

const AttentionVariant& neon_attention() {
  using Flash = FlashVariant<NeonPrefill, NeonDecode>;
  static constexpr AttentionVariant kVariant{
      .name = "neon", .usable = usable, .accepts = accepts, .scratch_bytes = Flash::scratch_bytes, .run = Flash::run};
  return kVariant;
}

}  // namespace ei::kernels

#endif
