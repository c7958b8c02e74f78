// KvView: how kernels see one layer of the ragged KV cache. Plain data; made by kv::Store, read by attention.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace ei {

// What one page holds: keys and values of `slots` slots. Where they lie inside is the backend's own.
struct KvPageShape {
  int32_t slots = 0;
  int32_t head_dim = 0;
  DType key_type = DType::kF32;
  DType value_type = DType::kF32;

  // Bytes of one key, as hosts see it.
  constexpr size_t key_row() const { return dtype_row_bytes(host_type(key_type), head_dim); }
  constexpr size_t value_row() const { return dtype_row_bytes(host_type(value_type), head_dim); }
};

struct KvPageLayout {
  size_t values_at = 0;  // offset of what KvHeadView::value_pages point to
  size_t bytes = 0;
  size_t multiple = 4096;  // that a page's bytes are rounded up to: what can be given back to the system alone
};

// The plain layout, of every backend whose device is the CPU: keys [slots, head_dim], then (64-byte aligned) values
// [slots, head_dim], both row-major.
constexpr KvPageLayout plain_page(const KvPageShape& shape) {
  const size_t keys = (static_cast<size_t>(shape.slots) * shape.key_row() + 63) / 64 * 64;
  return {.values_at = keys, .bytes = keys + static_cast<size_t>(shape.slots) * shape.value_row()};
}

inline std::byte* plain_key(const KvPageShape& shape, void* page, int64_t slot) {
  return static_cast<std::byte*>(page) + static_cast<size_t>(slot) * shape.key_row();
}
inline std::byte* plain_value(const KvPageShape& shape, void* page, int64_t slot) {
  return static_cast<std::byte*>(page) + plain_page(shape).values_at + static_cast<size_t>(slot) * shape.value_row();
}

// One kv_head: `length` slots in pages of KvView::page_slots slots. Slot s lies in page s / page_slots, row s %
// page_slots. With the plain layout a K page is [page_slots, head_dim] of key_type, a V page [page_slots, head_dim] of
// value_type, both row-major.
struct KvHeadView {
  const void* const* key_pages = nullptr;    // [ceil(length / page_slots)]
  const void* const* value_pages = nullptr;  // [ceil(length / page_slots)]
  int64_t length = 0;

  // Positions ascend with the slot. The first `listed` slots (what survived compactions) have their positions listed;
  // the slots behind them hold consecutive positions from tail_position on. An uncompacted head has listed == 0.
  const int32_t* listed_positions = nullptr;  // [listed]
  int64_t listed = 0;
  int32_t tail_position = 0;

  int32_t position(int64_t slot) const {
    return slot < listed ? listed_positions[slot] : tail_position + static_cast<int32_t>(slot - listed);
  }
};

struct KvView {
  DType key_type = DType::kF32;
  DType value_type = DType::kF32;
  int32_t head_dim = 0;
  int32_t page_slots = 0;
  std::span<const KvHeadView> heads;  // [kv_heads]
};

// The first slot whose position is >= `position` (== length when there is none). Positions ascend with the slot.
int64_t first_slot_at_or_after(const KvHeadView& head, int32_t position);

}  // namespace ei
