// Logits of a tile of keys under one head's form, by a block of threads; and how many keys a tile has.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace ei::kernels::cuda {

inline constexpr int kFormWarps = 8;
inline constexpr int kFormThreads = 32 * kFormWarps;

// Of shared memory: the keys of a tile, then what each warp found.
constexpr int64_t form_tile_bytes(int32_t head_dim, int keys) {
  return (int64_t{head_dim} + kFormWarps) * keys * static_cast<int64_t>(sizeof(float));
}
// The most keys, four, two or one a lane, for which a block may have the memory; 0: it may not even for those.
constexpr int form_tile_keys(int32_t head_dim, int64_t most_bytes) {
  for (int keys = 4 * 32; keys >= 32; keys /= 2)
    if (form_tile_bytes(head_dim, keys) <= most_bytes) return keys;
  return 0;
}

// An element of kEach neighbouring keys.
template <int kEach>
struct alignas(kEach * sizeof(float)) KeysOfLane {
  float of[kEach];
};

// logits[key] = linear . k + k^T quadratic k for the first `left` keys of a tile of 32 * kEach; element(key, d) is
// theirs. Warps share the rows of the triangle. A key's sums are taken in one order, however many keys a tile has.
template <int kEach, typename Element>
__device__ void form_logits(const float* linear, const float* quadratic, int32_t dim, int64_t left, Element element,
                            KeysOfLane<kEach>* tile, float* logits) {
  constexpr int kKeys = 32 * kEach;
  auto* keys = reinterpret_cast<float*>(tile);  // [dim, kKeys], then [kFormWarps, kKeys]
  for (auto i = static_cast<int32_t>(threadIdx.x); i < dim * kKeys; i += kFormThreads) {
    const int32_t key = i / dim;
    const int32_t d = i % dim;
    keys[d * kKeys + key] = key < left ? element(key, d) : 0.0f;
  }
  __syncthreads();
  const auto lane = static_cast<int32_t>(threadIdx.x % 32);
  KeysOfLane<kEach> sum{};
  for (auto i = static_cast<int32_t>(threadIdx.x / 32); i < dim; i += kFormWarps) {
    KeysOfLane<kEach> inner;
    for (float& value : inner.of) value = linear[i];
#pragma unroll 4
    for (int32_t j = 0; j <= i; ++j) {
      const float factor = quadratic[int64_t{i} * dim + j];
      const KeysOfLane<kEach> key = tile[j * 32 + lane];
#pragma unroll
      for (int e = 0; e < kEach; ++e) inner.of[e] += factor * key.of[e];
    }
    const KeysOfLane<kEach> key = tile[i * 32 + lane];
#pragma unroll
    for (int e = 0; e < kEach; ++e) sum.of[e] += inner.of[e] * key.of[e];
  }
  float* parts = keys + dim * kKeys;
  reinterpret_cast<KeysOfLane<kEach>*>(parts)[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x >= kKeys || threadIdx.x >= left) return;
  float logit = 0;
  for (int warp = 0; warp < kFormWarps; ++warp) logit += parts[warp * kKeys + static_cast<int>(threadIdx.x)];
  logits[threadIdx.x] = logit;
}

}  // namespace ei::kernels::cuda
