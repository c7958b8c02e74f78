#include "kv/rewind.h"

#include <algorithm>

namespace ei::kv {
namespace {

// Positions [0, end) that a kv_head holds without a gap.
int32_t exact_prefix(const KvHeadView& head) {
  int64_t slots = 0;
  while (slots < head.listed && head.listed_positions[slots] == slots) ++slots;
  if (slots == head.listed && head.tail_position == slots) slots = head.length;
  return static_cast<int32_t>(slots);
}

bool holds(const KvHeadView& head, int32_t begin, int32_t end) {
  return first_slot_at_or_after(head, end) - first_slot_at_or_after(head, begin) == end - begin;
}

bool may_go_on(const KvHeadView& head, int32_t window, int32_t position) {
  const int32_t seen_from = window > 0 ? std::max(0, position - window + 1) : 0;
  return holds(head, seen_from, position) || (window == 0 && position >= head.tail_position);
}

}  // namespace

int32_t rewind_point(const Store& store, std::span<const int32_t> windows, int32_t position) {
  bool here = true;
  int32_t prefix = position;
  for (size_t layer = 0; layer < windows.size(); ++layer) {
    for (const KvHeadView& head : store.view(static_cast<int>(layer)).heads) {
      here = here && may_go_on(head, windows[layer], position);
      prefix = std::min(prefix, exact_prefix(head));
    }
  }
  return here ? position : prefix;
}

}  // namespace ei::kv
