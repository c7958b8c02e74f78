#include "policy/kv/method.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "policy/kv/head_share.h"
#include "policy/kv/layer_share.h"
#include "policy/registry.h"

namespace ei::policy {

int32_t KvMethod::sets_of_kv_head() const { return options_.granularity == KvGranularity::kHead ? shape_.group() : 1; }

LayerScores KvMethod::score(const LayerMeasures& measured) const {
  return {.measured = measured.attention, .made = {}, .stride = measured.stride, .rows = shape_.group()};
}

LayerRating KvMethod::rate(const LayerMeasures& measured) const {
  const LayerScores scored = score(measured);
  LayerRating rating{.lengths = {measured.lengths.begin(), measured.lengths.end()}, .sets = {}};
  const int32_t together = options_.granularity == KvGranularity::kHead ? 1 : scored.rows;  // rows of a set
  for (int32_t kv_head = 0; kv_head < shape_.kv_heads; ++kv_head) {
    const int64_t slots = std::max<int64_t>(0, measured.lengths[static_cast<size_t>(kv_head)] - options_.window);
    for (int32_t set = 0; set < sets_of_kv_head(); ++set) {
      const int64_t row = int64_t{kv_head} * scored.rows + std::min(set, scored.rows - 1);
      SlotScores scores = pooled_scores(
          options_, {.scores = scored.row(row), .stride = scored.stride, .group = together, .slots = slots});
      const auto sinks = static_cast<std::ptrdiff_t>(std::min<int64_t>(options_.sinks, slots));
      std::fill_n(scores.begin(), sinks, std::numeric_limits<float>::max());
      rating.sets.push_back(std::move(scores));
    }
  }
  return rating;
}

std::vector<int64_t> KvMethod::layer_budgets(std::span<const int64_t> held) const {
  std::vector<int64_t> budgets(held.size(), options_.budget);
  const int64_t longest = held.empty() ? 0 : *std::max_element(held.begin(), held.end());
  if (options_.layers == KvLayers::kFlat || longest <= options_.budget) return budgets;
  budgets = pyramid_slots(options_, options_.budget - options_.window, static_cast<int64_t>(held.size()),
                          longest - options_.window);
  for (int64_t& budget : budgets) budget += options_.window;
  return budgets;
}

std::vector<KeepList> KvMethod::choose(const LayerRating& rating, int64_t budget) const {
  const int64_t base = std::max<int64_t>(0, budget - options_.window);
  std::vector<int64_t> counts(rating.sets.size(), base);
  if (options_.share == KvShare::kAdaptive) counts = share_slots(options_, rating.sets, base);
  std::vector<KeepList> lists;
  for (size_t set = 0; set < rating.sets.size(); ++set) {
    const int64_t length = rating.lengths[set / static_cast<size_t>(sets_of_kv_head())];
    lists.push_back(keep_best_and_recent(rating.sets[set], counts[set], length));
  }
  return lists;
}

std::vector<KeepList> KvMethod::keep(const LayerRating& rating, int64_t budget) const {
  const std::vector<KeepList> chosen = choose(rating, budget);
  const auto sets = static_cast<size_t>(sets_of_kv_head());
  std::vector<KeepList> keeps(rating.lengths.size());
  for (size_t kv_head = 0; kv_head < keeps.size(); ++kv_head) {
    KeepList& all = keeps[kv_head] = chosen[kv_head * sets];
    for (size_t set = 1; set < sets; ++set) all = union_of(all, chosen[kv_head * sets + set]);
    if (static_cast<int64_t>(all.size()) == rating.lengths[kv_head]) all.clear();
  }
  return keeps;
}

int64_t KvMethod::held(std::span<const int64_t> lengths) const {
  if (options_.share == KvShare::kFlat) return *std::max_element(lengths.begin(), lengths.end());
  // Rounded up: above the budget exactly when the layer holds more than its share.
  const auto heads = static_cast<int64_t>(lengths.size());
  return (std::accumulate(lengths.begin(), lengths.end(), int64_t{0}) + heads - 1) / heads;
}

int64_t KvMethod::most_kept() const {
  return options_.window + sets_of_kv_head() * int64_t{options_.budget - options_.window};
}

std::unique_ptr<KvMethod> make_kv_method(const KvOptions& options, const KvShape& shape) {
  if (options.rule == KvRule::kKeepAll) return nullptr;
  const KvEntry* entry = find_kv_rule(options.rule);
  EI_CHECK(entry != nullptr);
  return entry->make(options, shape);
}

}  // namespace ei::policy
