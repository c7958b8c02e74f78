// The layouts that KV pages have on a GPU: blocks of 8 keys (kv_layout.h) where the attention kernels serve the cache,
// codes (fp8_layout.h), otherwise plain rows (plan/kv_view.h). No CUDA header is needed to include this.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "kernels/attention/cuda/kv_layout.h"
#include "kernels/cuda/device_rows.h"
#include "kernels/pages/cuda/fp8_layout.h"
#include "plan/kv_view.h"

namespace ei::kernels::cuda {

struct DevicePages {
  KvPageShape shape;
  bool blocked = false;
  int64_t values_at = 0;  // of the plain layout

  static DevicePages of(const KvPageShape& shape, bool blocked) {
    return {.shape = shape, .blocked = blocked, .values_at = static_cast<int64_t>(plain_page(shape).values_at)};
  }
  EI_HOST_DEVICE KvLayout layout() const { return {.head_dim = shape.head_dim, .element_bytes = 2}; }
  EI_HOST_DEVICE bool narrow() const { return shape.key_type == DType::kF8; }  // values too
  EI_HOST_DEVICE Fp8Layout codes() const { return {.head_dim = shape.head_dim}; }
  EI_HOST_DEVICE DType type(bool value) const { return value ? shape.value_type : shape.key_type; }
  // Elements from bytes_before() to element `dim` of `slot`, in elements of its type.
  EI_HOST_DEVICE int64_t element(int64_t slot, int32_t dim, bool value) const {
    return blocked ? layout().element_offset(slot, dim, value) : slot * shape.head_dim + dim;
  }
  EI_HOST_DEVICE int64_t bytes_before(bool value) const { return value && !blocked ? values_at : 0; }
};

// Plain rows of keys or values out of the bytes of a blocked page on the host, or into them.
void gather_rows(const KvLayout& layout, const void* page, int64_t count, bool values, void* rows);
void scatter_rows(const KvLayout& layout, const void* rows, int64_t count, bool values, void* page);

struct PageMove {
  const void* from = nullptr;
  void* to = nullptr;
  int32_t from_slot = 0;
  int32_t to_slot = 0;
  int32_t count = 0;
};
inline constexpr int kMostMoves = 1000;  // of one launch: as many as parameters of a kernel hold
Status launch_move_slots(const DevicePages& pages, std::span<const PageMove> moves, void* stream);

// Normalises and rotates the queries in place, and the keys on their way into the store; values go there as they are.
struct RotateAppend {
  DeviceRows q;  // f32, [tokens, heads * head_dim]
  DeviceRows k;  // f32, [tokens, kv_heads * head_dim]
  DeviceRows v;
  const float* q_gain = nullptr;  // [head_dim] or null
  const float* k_gain = nullptr;
  float eps = 0;
  const float* cos = nullptr;  // [tokens, dims / 2]
  const float* sin = nullptr;
  int32_t dims = 0;
  bool interleaved = false;
  DevicePages pages;
  // Token t of kv_head h goes to slot s = first_slots[h] + t, in page s / shape.slots of the head's row of the table.
  const int32_t* first_slots = nullptr;  // [kv_heads]
  void* const* table = nullptr;          // [kv_heads, pages_per_head]
  int32_t pages_per_head = 0;
};
Status launch_rotate_append(const RotateAppend& params, void* stream);

}  // namespace ei::kernels::cuda
