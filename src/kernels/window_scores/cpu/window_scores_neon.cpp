#if defined(__aarch64__)
#include "kernels/simd/vec_neon.h"
#include "kernels/window_scores/cpu/attention_sums_loops.h"

namespace ei::kernels {
namespace {

// Sums in plain registers and keys by lane: GCC 12 keeps arrays of structs on the stack, at half the speed.
struct NeonProduct : FloatProduct<Vec4> {
  static void multiply(const void* queries, const KvView& kv, const KvHeadView& head, int64_t slot, int64_t end,
                       float* keys, float* logits) {
    load_keys(kv, head, slot, end, keys);
    for (int64_t key = 0; key < kTile; key += kKeys)
      multiply_keys(static_cast<const float*>(queries), keys + key * kv.head_dim, kv.head_dim, logits + key * kRows);
  }

 private:
  [[gnu::noinline]] static void multiply_keys(const float* queries, const float* keys, int64_t dim, float* logits) {
    float32x4_t sums[kKeys][kVecs];
    for (auto& key : sums)
      for (float32x4_t& lanes : key) lanes = vdupq_n_f32(0);
    for (int64_t d = 0; d < dim; d += 4, queries += 4 * kRows) {
      float32x4_t key[kKeys];
      for (int k = 0; k < kKeys; ++k) key[k] = vld1q_f32(keys + k * dim + d);
      for (int v = 0; v < kVecs; ++v) {
        for (int k = 0; k < kKeys; ++k) {
          sums[k][v] = vfmaq_laneq_f32(sums[k][v], vld1q_f32(queries + v * 4), key[k], 0);
          sums[k][v] = vfmaq_laneq_f32(sums[k][v], vld1q_f32(queries + kRows + v * 4), key[k], 1);
          sums[k][v] = vfmaq_laneq_f32(sums[k][v], vld1q_f32(queries + 2 * kRows + v * 4), key[k], 2);
          sums[k][v] = vfmaq_laneq_f32(sums[k][v], vld1q_f32(queries + 3 * kRows + v * 4), key[k], 3);
        }
      }
    }
    for (int k = 0; k < kKeys; ++k)
      for (int v = 0; v < kVecs; ++v) vst1q_f32(logits + k * kRows + v * 4, sums[k][v]);
  }
};

bool usable() { return true; }

}  // namespace

const WindowVariant& neon_window() {
  static constexpr WindowVariant kVariant = make_window_variant<Vec4, NeonProduct>("neon", usable);
  return kVariant;
}

}  // namespace ei::kernels
#endif
