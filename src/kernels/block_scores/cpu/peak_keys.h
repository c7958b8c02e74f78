// Keys and the extremes of super-blocks, rounded to 8 bits and packed in panels of eight (KeyPanels), for an ISA of
// row_peaks.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "kernels/block_scores/cpu/block_scores.h"
#include "kernels/block_scores/cpu/peak_math.h"
#include "kernels/simd/wide.h"

namespace ei::kernels {

inline constexpr int kMostDim = 256;

template <typename Isa>
class PeakKeys {
 public:
  static void pack(const PackKeysParams& params, Worker worker) {
    const auto heads = static_cast<int64_t>(params.kv.heads.size());
    const int64_t first = params.first / kPanelKeys;
    const int64_t last = (params.length + kPanelKeys - 1) / kPanelKeys;
    const int64_t first_bound = params.first_super / kPanelKeys;
    const int64_t last_bound = (params.supers + kPanelKeys - 1) / kPanelKeys;
    for (int64_t h = 0; h < heads; ++h) {
      const Range share = even_share(last - first, worker);
      for (int64_t p = first + share.begin; p < first + share.end; ++p) pack_key_panel(params, h, p);
      const Range bounds = even_share(last_bound - first_bound, worker);
      for (int64_t p = first_bound + bounds.begin; p < first_bound + bounds.end; ++p) pack_bound_panel(params, h, p);
    }
  }

 private:
  static void pack_key_panel(const PackKeysParams& params, int64_t h, int64_t panel) {
    const int dim = params.kv.head_dim;
    int8_t* to = params.out.keys + (h * params.out.capacity + panel) * kPanelKeys * dim;
    float& scale = params.out.key_scales[h * params.out.capacity + panel];
    const int64_t slot = panel * kPanelKeys;
    if (slot + kPanelKeys <= params.length && params.kv.page_slots % kPanelKeys == 0) {
      const auto* keys = static_cast<const uint16_t*>(key_at(params.kv, h, slot));
      if (params.kv.key_type == DType::kBF16) {
        scale = place_halves(keys, dim, to, [](const uint16_t* from) { return eight_at(from); });
        return;
      }
#if defined(EI_WIDENS_HALVES)
      if (params.kv.key_type == DType::kF16) {
        scale = place_halves(keys, dim, to, eight_halves_at);
        return;
      }
#endif
    }
    float rows[kPanelKeys * kMostDim];
    for (int key = 0; key < kPanelKeys; ++key) {
      if (slot + key >= params.length) {
        std::fill_n(rows + key * dim, dim, 0.0f);
        continue;
      }
      load_key(params.kv, h, slot + key, rows + key * dim);
    }
    place_keys(rows, dim, to, scale);
  }

  // Keys of 16 bits, one behind the other. Their magnitudes order like the integers of their bits.
  template <typename Widen>
  static float place_halves(const uint16_t* keys, int dim, int8_t* panel, Widen widen) {
    uint16_t bits = 0;
    for (int k = 0; k < kPanelKeys * dim; ++k) bits = std::max(bits, static_cast<uint16_t>(keys[k] & 0x7fff));
    const uint16_t widened[8] = {bits};
    const float largest = widen(widened).low[0];
    const float inverse = largest > 0 ? 127.0f / largest : 0.0f;
    for (int key = 0; key < kPanelKeys; ++key, keys += dim) {
      for (int d = 0; d < dim; d += 8) {
        int8_t small[8];
        round_eight(widen(keys + d), inverse, small);
        for (int run = 0; run < 8; run += Isa::kRun)
          std::memcpy(panel + Isa::key_index(key, d + run, dim), small + run, Isa::kRun);
      }
    }
    return largest / 127.0f;
  }

  static void pack_bound_panel(const PackKeysParams& params, int64_t h, int64_t panel) {
    const int dim = params.kv.head_dim;
    const int64_t width = int64_t{params.out.super_blocks} * params.block;  // keys of a super-block
    float rows[kPanelKeys * 2 * kMostDim];
    float key[kMostDim];
    for (int s = 0; s < kPanelKeys; ++s) {
      const int64_t super = panel * kPanelKeys + s;
      float* high = rows + s * 2 * dim;
      float* low = high + dim;
      // Without any block an upper bound is 0, whatever the row.
      std::fill_n(high, 2 * dim, 0.0f);
      if (super >= params.supers) continue;
      const int64_t begin = std::max<int64_t>(super * width, params.block);  // the sink is no part of the first one
      for (int64_t slot = begin; slot < (super + 1) * width; ++slot) {
        load_key(params.kv, h, slot, key);
        for (int d = 0; d < dim; ++d) high[d] = slot == begin ? key[d] : std::max(high[d], key[d]);
        for (int d = 0; d < dim; ++d) low[d] = slot == begin ? key[d] : std::min(low[d], key[d]);
      }
    }
    const int64_t at = (h * params.out.bound_capacity + panel) * kPanelKeys;
    int8_t small[2 * kMostDim];
    for (int s = 0; s < kPanelKeys; ++s) {
      params.out.bound_scales[at + s] = quantise(rows + s * 2 * dim, 2 * dim, small);
      place_key(small, s, 2 * dim, params.out.bounds + at * 2 * dim);
    }
  }

  static const void* key_at(const KvView& kv, int64_t h, int64_t slot) {
    const size_t row_bytes = dtype_row_bytes(kv.key_type, kv.head_dim);
    const auto* page = static_cast<const std::byte*>(kv.heads[static_cast<size_t>(h)].key_pages[slot / kv.page_slots]);
    return page + static_cast<size_t>(slot % kv.page_slots) * row_bytes;
  }

  static void load_key(const KvView& kv, int64_t h, int64_t slot, float* to) {
    load_row(key_at(kv, h, slot), kv.key_type, kv.head_dim, to);
  }

  static void place_keys(const float* rows, int dim, int8_t* to, float& scale) {
    int8_t small[kPanelKeys * 2 * kMostDim];
    scale = quantise(rows, int64_t{kPanelKeys} * dim, small);
    for (int key = 0; key < kPanelKeys; ++key) place_key(small + key * dim, key, dim, to);
  }

  static void place_key(const int8_t* values, int key, int dim, int8_t* panel) {
    for (int d = 0; d < dim; d += Isa::kRun) std::memcpy(panel + Isa::key_index(key, d, dim), values + d, Isa::kRun);
  }
};

}  // namespace ei::kernels
