// What a store says about itself.
#include <algorithm>
#include <limits>

#include "base/check.h"
#include "kv/store.h"

namespace ei::kv {

int64_t Store::length(int layer, int kv_head) const {
  EI_CHECK(kv_head >= 0 && kv_head < config_.kv_heads);
  return layer_at(layer).heads[static_cast<size_t>(kv_head)].length();
}

int32_t Store::next_position() const {
  int32_t next = std::numeric_limits<int32_t>::max();
  for (const Layer& layer : layers_) next = std::min(next, layer.next);
  return next;
}

int64_t Store::bytes() const {
  int64_t pages = 0;
  for (const Layer& layer : layers_) {
    for (const HeadSlots& head : layer.heads) pages += head.num_pages();
  }
  return pages * static_cast<int64_t>(layout_.bytes);
}

int64_t Store::bytes_full() const {
  const int64_t pages = layout_.pages_for(next_position()) * config_.layers * config_.kv_heads;
  return pages * static_cast<int64_t>(layout_.bytes);
}

int64_t Store::tokens_kept() const {
  int64_t kept = 0;
  for (const Layer& layer : layers_) {
    for (const HeadSlots& head : layer.heads) kept += head.length();
  }
  return kept;
}

int64_t Store::tokens_total() const { return int64_t{next_position()} * config_.layers * config_.kv_heads; }

double Store::average_slots() const {
  return static_cast<double>(tokens_kept()) / (static_cast<double>(config_.layers) * config_.kv_heads);
}

bool Store::exact() const {
  for (const Layer& layer : layers_) {
    for (const HeadSlots& head : layer.heads) {
      if (head.length() != layer.next) return false;
    }
  }
  return true;
}

}  // namespace ei::kv
