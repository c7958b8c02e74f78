#include "policy/kv/method.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "policy/kv/head_share.h"
#include "policy/registry.h"

namespace ei::policy {

KvNeeds KvMethod::needs() const {
  KvNeeds needs{.queries = scored_queries(),
                .row_entropy = by_entropy(options_.layers) || options_.share == KvShare::kDistinct,
                .keys = scored_keys(),
                .expected = scores_expected()};
  if (needs.row_entropy && needs.queries == QuerySource::kNone) needs.queries = options_.queries;
  if (options_.key_share > 0 && !scores_by_keys()) needs.keys = KeyMeasure::kCosine;
  if (needs.queries != QuerySource::kAll) return needs;
  // The latest wait to be added up, and tell entropies meanwhile.
  needs.queries = QuerySource::kLast;
  needs.accumulated = true;
  return needs;
}

Status KvMethod::check() const {
  if (options_.queries == QuerySource::kAll && (!rates_attention() || scored_queries() == QuerySource::kNone))
    return make_error(ErrorKind::kUsage,
                      "attention is added up over all queries for methods that score by it, not for %s; take "
                      "--kv-queries sampled",
                      std::string(options_.rule.name).c_str());
  const int64_t least = int64_t{options_.window} + options_.sinks + 1;
  if (options_.budget_bytes == 0 || budget_at(0) >= least) return {};
  return make_error(ErrorKind::kUsage,
                    "a KV budget of %s is %lld slots per kv_head of this model; window and sinks need %lld",
                    budget_text(options_).c_str(), static_cast<long long>(budget_at(0)), static_cast<long long>(least));
}

int64_t KvMethod::budget_at(int64_t tokens) const {
  if (options_.budget_share > 0) {
    const auto share = static_cast<int64_t>(std::ceil(options_.budget_share * static_cast<double>(tokens)));
    return std::max(options_.budget_base + share, int64_t{options_.window} + options_.sinks + 1);
  }
  if (options_.budget_bytes == 0) return options_.budget;
  return options_.budget_bytes / std::max<int64_t>(1, int64_t{shape_.layers} * shape_.kv_heads * shape_.slot_bytes);
}

int32_t KvMethod::num_sets() const {
  if (options_.granularity == KvGranularity::kLayer) return 1;
  return options_.granularity == KvGranularity::kHead ? shape_.heads : shape_.kv_heads;
}

namespace {
double entropy_of(std::span<const float> distribution) {
  double entropy = 0;
  for (const float share : distribution)
    if (share > 0) entropy -= static_cast<double>(share * std::log(share));
  return entropy;
}

// The entropy of what attention leaves to the slots behind the sinks, from that of all and from the mean attention:
// with P the sinks' mass and S their terms -p ln p, E = S - (1 - P) ln(1 - P) + (1 - P) E'. Exact where all queries
// give the sinks the same.
double entropy_behind_sinks(double entropy, std::span<const float> attention) {
  const std::span<const float> sinks = attention.first(std::min<size_t>(kSinkSlots, attention.size()));
  const double rest = 1 - std::accumulate(sinks.begin(), sinks.end(), 0.0);
  if (rest < 1e-6) return 0;
  return std::max(0.0, (entropy - entropy_of(sinks) + rest * std::log(rest)) / rest);
}
}  // namespace

LayerScores KvMethod::score(const LayerMeasures& measured) const {
  LayerScores scores{.stride = measured.stride};
  if (scored_keys() != KeyMeasure::kNone) {
    std::transform(measured.keys.begin(), measured.keys.end(), std::back_inserter(scores.made), std::negate<>());
    return scores;
  }
  scores.rows = shape_.group();
  scores.measured = scores_expected()              ? measured.expected.data()
                    : measured.accumulated.empty() ? measured.attention
                                                   : measured.accumulated.data();
  return scores;
}

bool KvMethod::rates_attention() const {
  const KvEntry* entry = find_kv_rule(options_.rule);
  return entry != nullptr && entry->scores_attention && !scores_expected();
}

bool KvMethod::rates_measures() const {
  if (scored_keys() != KeyMeasure::kNone || scores_expected()) return true;
  return rates_attention() && scored_queries() != QuerySource::kNone;
}

int64_t KvMethod::recent(int64_t budget) const {
  const auto share = static_cast<int64_t>(options_.recent * static_cast<double>(budget));
  return std::max<int64_t>(options_.window, std::min(share, budget - options_.sinks - 1));
}

LayerSets KvMethod::sets_of(std::span<const int64_t> lengths, bool aligned, int64_t recent) const {
  // One set for all needs the same slots in all; a cache that another method has compressed may have others.
  const int32_t sets = num_sets() > 1 || aligned ? num_sets() : shape_.kv_heads;
  LayerSets layer{.slots = {}, .group = std::max(1, shape_.heads / sets)};
  for (int32_t set = 0; set < sets; ++set) {
    const int32_t kv_head = set * shape_.kv_heads / sets;
    layer.slots.push_back(std::max<int64_t>(0, lengths[static_cast<size_t>(kv_head)] - recent));
  }
  return layer;
}

SlotScores KvMethod::unlike_others(const LayerMeasures& measured, int32_t set, int32_t sets, int64_t slots) const {
  const int64_t first = int64_t{set} * shape_.kv_heads / sets;
  SlotScores keys(static_cast<size_t>(slots));
  aggregate_group({.scores = measured.keys.data() + first * measured.stride,
                   .stride = measured.stride,
                   .group = std::max(1, shape_.kv_heads / sets),
                   .slots = slots},
                  GroupAggregate::kMean, keys);
  std::transform(keys.begin(), keys.end(), keys.begin(), std::negate<>());
  return keys;
}

LayerRating KvMethod::rate(const LayerMeasures& measured) const {
  const LayerScores scored = score(measured);
  LayerRating rating{.lengths = {measured.lengths.begin(), measured.lengths.end()}, .sets = {}};
  const std::vector<int64_t> set_slots = sets_of(measured.lengths, measured.aligned, options_.window).slots;
  const auto sets = static_cast<int32_t>(set_slots.size());
  const int32_t rows = shape_.kv_heads * scored.rows;
  for (int32_t set = 0; set < sets; ++set) {
    const int32_t first = set * rows / sets;  // where a kv_head has one score for all its heads, several sets share it
    const int64_t slots = set_slots[static_cast<size_t>(set)];
    SlotScores scores = pooled_scores(
        options_,
        {.scores = scored.row(first), .stride = scored.stride, .group = std::max(1, rows / sets), .slots = slots});
    const auto sinks = static_cast<std::ptrdiff_t>(std::min<int64_t>(options_.sinks, slots));
    std::fill_n(scores.begin(), sinks, std::numeric_limits<float>::max());
    rating.sets.push_back(std::move(scores));
    if (options_.key_share > 0) rating.keys.push_back(unlike_others(measured, set, sets, slots));
  }
  const auto heads = static_cast<double>(measured.row_entropy.size());
  std::vector<double> different(static_cast<size_t>(sets));
  for (size_t head = 0; head < measured.row_entropy.size(); ++head) {
    rating.entropy += static_cast<double>(measured.row_entropy[head]) / heads;
    const int64_t slots = measured.lengths[head * measured.lengths.size() / measured.row_entropy.size()];
    const float* row = measured.attention + static_cast<int64_t>(head) * measured.stride;
    const std::span<const float> attention(row, static_cast<size_t>(slots));
    const double of_mean = entropy_of(attention);
    rating.mean_entropy += of_mean / heads;
    rating.rest_entropy += entropy_behind_sinks(measured.row_entropy[head], attention) / heads;
    different[head * different.size() / measured.row_entropy.size()] +=
        (of_mean - static_cast<double>(measured.row_entropy[head])) * static_cast<double>(sets) / heads;
  }
  if (!measured.row_entropy.empty())
    for (const double one : different) rating.distinct.push_back(std::exp(one));
  return rating;
}

std::vector<int64_t> KvMethod::layer_budgets(int64_t budget, std::span<const LayerState> layers) const {
  int64_t longest = 0;
  for (const LayerState& layer : layers) longest = std::max(longest, layer.held);
  if (options_.layers == KvLayers::kFlat || longest <= budget) return std::vector<int64_t>(layers.size(), budget);
  if (by_entropy(options_.layers)) return entropy_budgets(options_, budget, layers);
  std::vector<int64_t> budgets =
      pyramid_slots(options_, budget - options_.window, static_cast<int64_t>(layers.size()), longest - options_.window);
  for (int64_t& one : budgets) one += options_.window;
  return budgets;
}

std::vector<KeepList> KvMethod::choose(const LayerRating& rating, int64_t budget) const {
  const int64_t latest = recent(budget);
  const int64_t base = std::max<int64_t>(0, budget - latest);
  const auto length_of = [&](size_t set) { return rating.lengths[set * rating.lengths.size() / rating.sets.size()]; };
  std::vector<SlotScores> fewer;  // where more than the window stays
  for (size_t set = 0; set < rating.sets.size() && latest > options_.window; ++set) {
    const auto slots = static_cast<std::ptrdiff_t>(std::max<int64_t>(0, length_of(set) - latest));
    fewer.emplace_back(rating.sets[set].begin(), rating.sets[set].begin() + slots);
  }
  const std::vector<SlotScores>& sets = fewer.empty() ? rating.sets : fewer;
  std::vector<int64_t> counts(sets.size(), base);
  if (options_.share == KvShare::kAdaptive) counts = share_slots(options_, sets, base);
  if (options_.share == KvShare::kDistinct) counts = share_by_weight(options_, rating.distinct, sets, base);
  std::vector<KeepList> lists;
  for (size_t set = 0; set < sets.size(); ++set)
    lists.push_back(rating.keys.empty() ? keep_best_and_recent(sets[set], counts[set], length_of(set))
                                        : keep_best_of_both_and_recent(options_, sets[set], rating.keys[set],
                                                                       counts[set], length_of(set)));
  return lists;
}

std::vector<KeepList> KvMethod::keep(const LayerRating& rating, int64_t budget) const {
  return united(choose(rating, budget), rating.lengths);
}

std::vector<KeepList> KvMethod::united(const std::vector<KeepList>& chosen, std::span<const int64_t> lengths) {
  std::vector<KeepList> keeps(lengths.size());
  for (size_t kv_head = 0; kv_head < keeps.size(); ++kv_head) {
    const size_t first = kv_head * chosen.size() / keeps.size();
    const size_t end = std::max(first + 1, (kv_head + 1) * chosen.size() / keeps.size());
    KeepList& all = keeps[kv_head] = chosen[first];
    for (size_t set = first + 1; set < end; ++set) all = union_of(all, chosen[set]);
    if (static_cast<int64_t>(all.size()) == lengths[kv_head]) all.clear();
  }
  return keeps;
}

int64_t KvMethod::held(std::span<const int64_t> lengths) const {
  if (options_.share == KvShare::kFlat) return *std::max_element(lengths.begin(), lengths.end());
  // Rounded up: above the budget exactly when the layer holds more than its share.
  const auto heads = static_cast<int64_t>(lengths.size());
  return (std::accumulate(lengths.begin(), lengths.end(), int64_t{0}) + heads - 1) / heads;
}

int64_t KvMethod::most_kept(int64_t budget) const {
  const int64_t sets = std::max(1, num_sets() / shape_.kv_heads);
  return options_.window + sets * (budget - options_.window);
}

std::unique_ptr<KvMethod> make_kv_method(const KvOptions& options, const KvShape& shape) {
  if (options.rule == KvRule::kKeepAll) return nullptr;
  const KvEntry* entry = find_kv_rule(options.rule);
  EI_CHECK(entry != nullptr);
  return entry->make(options, shape);
}

}  // namespace ei::policy
