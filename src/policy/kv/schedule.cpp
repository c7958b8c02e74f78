#include "policy/kv/schedule.h"

#include <algorithm>

namespace ei::policy {

// A cache that holds exactly its budget would keep everything: there is nothing to do.
bool LatentSchedule::over_budget(int64_t longest) const {
  return options_.rule != KvRule::kKeepAll && longest > options_.budget;
}

bool LatentSchedule::prompt_read(int64_t longest) {
  generated_ = 0;
  // gap 0 waits for nothing either: the window is full of prompt queries.
  return options_.gap <= 0 && over_budget(longest);
}

bool LatentSchedule::token_appended(int64_t longest) {
  ++generated_;
  const int64_t since_first = generated_ - std::max(0, options_.gap);
  if (since_first < 0 || !over_budget(longest)) return false;
  if (since_first == 0) return options_.gap > 0;
  return options_.repeat > 0 && since_first % options_.repeat == 0;
}

}  // namespace ei::policy
