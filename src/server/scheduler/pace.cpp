#include "server/scheduler/pace.h"

#include <algorithm>

namespace ei::server {

namespace {
// A token's time grows with the text in front of it, by less than this from chunk to chunk.
constexpr double kSlower = 1.05;
}  // namespace

int64_t Pace::rows(double seconds, bool shared) const {
  if (!known()) return kFirst;
  const auto rows = static_cast<int64_t>(std::min(seconds / row_s_, 1e6));
  if (rows >= kTogether) return rows / kTogether * kTogether;
  if (!shared) return kTogether;
  return std::max<int64_t>(rows / kLeast, 1) * kLeast;
}

// Every chunk costs something whatever its length, most on a busy machine. If slow chunks were believed at once, they
// would be cut shorter and be slower still: the best pace counts, and is forgotten slowly.
void Pace::took(int64_t rows, double seconds) {
  if (rows <= 0) return;
  const double each = seconds / static_cast<double>(rows);
  row_s_ = known() ? std::min(each, row_s_ * kSlower) : each;
}

}  // namespace ei::server
