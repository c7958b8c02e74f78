// Budgets by type of head: the growth rule, and at least a share of the text for sink and diffuse heads. The shares and
// the bend at 32768 tokens were chosen on one model of 16 kv_heads; kept to compare with (docs/entropyinfer.md).
#include <algorithm>

#include "policy/entries.h"
#include "policy/prefill/growth.h"
#include "policy/prefill/habit_shares.h"

namespace ei::policy {
namespace {

constexpr double kFurtherSink = 2;    // beyond 32768 tokens a sink head looks up more and more
constexpr int64_t kRatedPerRead = 2;  // where a share of the text is read

class HabitMethod : public GrowthMethod {
 public:
  using GrowthMethod::GrowthMethod;

 protected:
  int64_t rated_tokens(const SegmentPlace& place, const PrefillHistory& history, const SegmentRecord& record,
                       size_t kv_head) const override {
    return std::max(GrowthMethod::rated_tokens(place, history, record, kv_head),
                    kRatedPerRead * share(place, record.heads[kv_head].type));
  }

  int32_t adjusted(const SegmentPlace& place, HeadType type, int32_t count) const override {
    // A budget for everything is one for everything.
    if (count >= visible(place.segment)) return count;
    if (type == HeadType::kLocal && options().local_budget > 0)
      return std::min(count, std::max(1, options().local_budget / options().block));
    return std::max(count, static_cast<int32_t>(share(place, type) / options().block));
  }

 private:
  // Tokens that are read however small the budget.
  int64_t share(const SegmentPlace& place, HeadType type) const {
    const int64_t before = int64_t{place.segment} * options().segment;
    if (place.layer < options().layer_skip) return early_tokens(options(), place.layer, before);
    const bool sink = type == HeadType::kSink;
    const int32_t one_in = type == HeadType::kLocal ? 0 : sink ? options().sink_share : options().diffuse_share;
    return one_in > 0 ? std::min(before, weighed_tokens(before, sink ? kFurtherSink : 1) / one_in) : 0;
  }
};

std::unique_ptr<PrefillMethod> make_habit_method(const PrefillOptions& options, const PrefillShape& shape) {
  return std::make_unique<HabitMethod>(options, shape);
}

}  // namespace

Entry habit_entry() {
  std::vector<std::string_view> reads = growth_options();
  reads.insert(reads.end(), {"local-budget", "sink-share", "diffuse-share"});
  return {
      .prefill = {
          .name = "habit", .about = "by type of head", .make = make_habit_method, .bounded = false, .reads = reads}};
}

}  // namespace ei::policy
