#include "plan/kv_view.h"

#include <algorithm>

namespace ei {

int64_t first_slot_at_or_after(const KvHeadView& head, int32_t position) {
  const int64_t listed = std::min(head.listed, head.length);
  const int32_t* end = head.listed_positions + listed;
  const int32_t* found = std::lower_bound(head.listed_positions, end, position);
  if (found != end) return found - head.listed_positions;
  if (position <= head.tail_position) return listed;
  return std::min<int64_t>(head.length, listed + (position - head.tail_position));
}

}  // namespace ei
