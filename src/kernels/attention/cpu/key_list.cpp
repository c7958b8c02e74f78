#include "kernels/attention/cpu/key_list.h"

#include <algorithm>

#include "base/check.h"

namespace ei::kernels {
namespace {

const void* row_address(const void* const* pages, int64_t slot, int64_t page_slots, int64_t row_bytes) {
  return static_cast<const char*>(pages[slot / page_slots]) + (slot % page_slots) * row_bytes;
}

// The list entry of the first slot >= `slot`.
int64_t entry_of(const KeyList& list, int64_t slot) {
  if (slot >= list.own_begin) return list.block_keys + slot - list.own_begin;
  const int32_t* end = list.blocks + list.block_keys / list.block;
  const int32_t wanted = static_cast<int32_t>(slot / list.block);
  const int32_t* found = std::lower_bound(list.blocks, end, wanted);
  const int64_t inside = found != end && *found == wanted ? slot % list.block : 0;
  return (found - list.blocks) * list.block + inside;
}

}  // namespace

KeyList make_key_list(const AttentionParams& params, int64_t kv_head, int64_t token) {
  KeyList list;
  list.head = &params.kv.heads[static_cast<size_t>(kv_head)];
  if (params.plan == nullptr) return list;
  const BlockPlan& plan = *params.plan;
  EI_CHECK(list.head->listed == 0 && list.head->tail_position == 0);  // a plan speaks of slots that are positions
  const int64_t segment = (params.first_position + token) / plan.grid.segment;
  const int64_t i = segment - plan.first_segment;
  EI_CHECK_GE(i, 0);
  EI_CHECK_LT(i, plan.num_segments);
  if (segment == 0 || plan.dense[static_cast<size_t>(i)] != 0) return list;
  const size_t row = static_cast<size_t>(kv_head * plan.num_segments + i);
  list.blocks = plan.blocks.data() + plan.offsets[row];
  list.block = plan.grid.block;
  list.block_keys = (plan.offsets[row + 1] - plan.offsets[row]) * plan.grid.block;
  list.own_begin = segment * plan.grid.segment;
  return list;
}

Range visible_keys(const AttentionParams& params, const KeyList& list, int64_t token) {
  const int32_t position = params.first_position + static_cast<int32_t>(token);
  const int64_t end = entry_of(list, std::max(list.own_begin, first_slot_at_or_after(*list.head, position + 1)));
  if (params.window <= 0 || params.window > position) return {0, end};
  return {entry_of(list, first_slot_at_or_after(*list.head, position - params.window + 1)), end};
}

void gather_rows(const KvView& kv, const KeyList& list, int64_t begin, int64_t count, const void** key_rows,
                 const void** value_rows) {
  const auto key_bytes = static_cast<int64_t>(dtype_row_bytes(kv.key_type, kv.head_dim));
  const auto value_bytes = static_cast<int64_t>(dtype_row_bytes(kv.value_type, kv.head_dim));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t entry = begin + i;
    const int64_t slot = entry < list.block_keys
                             ? int64_t{list.blocks[entry / list.block]} * list.block + entry % list.block
                             : list.own_begin + entry - list.block_keys;
    key_rows[i] = row_address(list.head->key_pages, slot, kv.page_slots, key_bytes);
    value_rows[i] = row_address(list.head->value_pages, slot, kv.page_slots, value_bytes);
  }
}

QueryTiles::QueryTiles(const AttentionParams& params, int64_t tile_tokens)
    : first_(params.plan != nullptr ? params.first_position : 0),
      end_(first_ + params.tokens),
      segment_(params.plan != nullptr ? params.plan->grid.segment : std::max<int64_t>(1, params.tokens)),
      tile_tokens_(tile_tokens),
      tiles_per_segment_((segment_ + tile_tokens - 1) / tile_tokens) {
  const auto tile_of = [&](int64_t at) { return at / segment_ * tiles_per_segment_ + at % segment_ / tile_tokens_; };
  last_tile_ = tile_of(std::max(first_, end_ - 1));
  count_ = params.tokens > 0 ? last_tile_ - tile_of(first_) + 1 : 0;
}

Range QueryTiles::tokens(int64_t tile) const {
  const int64_t global = last_tile_ - tile;
  const int64_t segment_begin = global / tiles_per_segment_ * segment_;
  const int64_t begin = segment_begin + global % tiles_per_segment_ * tile_tokens_;
  const int64_t end = std::min(begin + tile_tokens_, segment_begin + segment_);
  return {std::max(begin, first_) - first_, std::min(end, end_) - first_};
}

}  // namespace ei::kernels
