#include "policy/kv/schedule.h"

#include <algorithm>

namespace ei::policy {

bool KvSchedule::prompt_read(bool over) {
  generated_ = 0;
  // gap 0 waits for nothing either: the window is full of prompt queries.
  return gap_ <= 0 && over;
}

bool KvSchedule::token_appended(bool over) {
  ++generated_;
  const int64_t since_first = generated_ - std::max<int64_t>(0, gap_);
  if (since_first < 0 || !over) return false;
  if (since_first == 0) return gap_ > 0;
  return repeat_ > 0 && since_first % repeat_ == 0;
}

}  // namespace ei::policy
