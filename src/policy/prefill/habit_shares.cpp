#include "policy/prefill/habit_shares.h"

#include <algorithm>

namespace ei::policy {

namespace {
constexpr int64_t kLong = 32768;
constexpr double kFurtherEarly = 0.5;
constexpr double kFurtherCandidates = 0.25;
}  // namespace

int64_t weighed_tokens(int64_t tokens, double further) {
  const int64_t beyond = std::max<int64_t>(tokens - kLong, 0);
  return tokens - beyond + static_cast<int64_t>(further * static_cast<double>(beyond));
}

int64_t early_tokens(const PrefillOptions& options, int32_t layer, int64_t before) {
  if (layer >= options.layer_skip || options.early_share == 0) return 0;
  return std::min(before, weighed_tokens(before, kFurtherEarly) / options.early_share);
}

int64_t candidate_tokens(const PrefillOptions& options, int32_t segment, int64_t rated) {
  if (options.candidate_share == 0) return 0;
  const int64_t before = int64_t{segment} * options.segment;
  const int64_t share = weighed_tokens(before, kFurtherCandidates) / options.candidate_share;
  return std::max({int64_t{options.threshold}, share, rated});
}

}  // namespace ei::policy
