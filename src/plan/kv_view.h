// KvView: how kernels see one layer of the ragged KV cache. Plain data; made by kv::Store, read by attention.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace ei {

// One kv_head: `length` slots in pages of KvView::page_slots slots. Slot s lies in page s / page_slots, row s %
// page_slots. A K page is [page_slots, head_dim] of key_type, a V page [page_slots, head_dim] of value_type, both
// row-major.
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
