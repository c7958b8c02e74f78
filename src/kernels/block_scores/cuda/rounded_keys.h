// Keys of the layer in work rounded to 8 bits, as the rating of blocks by tensor cores reads them (peaks of
// rounded_peaks_sm90a.cu and rounded_peaks_sm80.cuh). No CUDA header is needed to include this.
//
// A unit is 64 keys, a super-block; panels are eight keys with one scale. In a unit lie eight groups of eight rows,
// each in wgmma's swizzle (KvLayout with elements of one byte). An accumulator's fragment gives lane c of four the
// columns 2c and 2c + 1 of every group, so the eight keys of a panel lie in the columns of one lane: no lane asks
// another for the best of a panel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention/cuda/kv_layout.h"
#include "kernels/block_scores/block_scores.h"
#include "kernels/pages/cuda/device_pages.h"

namespace ei::kernels::cuda {

inline constexpr int32_t kUnitKeys = 64;
inline constexpr int32_t kUnitPanels = kUnitKeys / kBlockKeys;

struct UnitRow {
  int32_t group;
  int32_t row;
};
// Where key `key` of panel `panel` lies in its unit.
EI_HOST_DEVICE constexpr UnitRow unit_row(int32_t panel, int32_t key) {
  return {panel % 2 * 4 + key / 2, panel / 2 * 2 + key % 2};
}

struct RoundedKeys {
  void* codes = nullptr;    // [kv_heads, units, 64 * head_dim], 8 bits; null: there are none
  float* scales = nullptr;  // [kv_heads, units, 8]: what one step of a panel is worth
  int64_t units = 0;        // of each kv_head

  static constexpr int64_t units_of(int64_t tokens) { return tokens / kUnitKeys; }
  static constexpr int64_t bytes(const KeyIndexShape& shape, int64_t tokens) {
    return shape.kv_heads * units_of(tokens) *
           (kUnitKeys * shape.head_dim + kUnitPanels * static_cast<int64_t>(sizeof(float)));
  }
  // In memory of so many bytes.
  static RoundedKeys in(void* memory, const KeyIndexShape& shape, int64_t tokens) {
    const int64_t units = units_of(tokens);
    auto* codes = static_cast<std::byte*>(memory);
    return {.codes = codes,
            .scales = reinterpret_cast<float*>(codes + shape.kv_heads * units * kUnitKeys * shape.head_dim),
            .units = units};
  }
};

// Rounds the units of keys [0, units * 64) of every kv_head, out of blocked pages.
struct RoundKeys {
  DevicePages pages;
  const DeviceKvHead* heads = nullptr;
  int32_t kv_heads = 0;
  int64_t units = 0;
  RoundedKeys out;
};
Status launch_round_keys(const RoundKeys& params, void* stream);

}  // namespace ei::kernels::cuda
