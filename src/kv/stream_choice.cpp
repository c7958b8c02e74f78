#include "kv/stream_choice.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "kv/key_measure.h"
#include "policy/kv/head_share.h"
#include "policy/kv/ranking.h"

namespace ei::kv {
namespace {

const ScratchSlot kMeasuredThere, kKeysThere, kRatings, kChosen, kCounts, kSpreads;
constexpr int32_t kMostPooled = 1024;  // neighbours

bool adaptive(const policy::KvOptions& options) { return options.share == policy::KvShare::kAdaptive; }

int64_t sum(std::span<const int64_t> values) { return std::accumulate(values.begin(), values.end(), int64_t{0}); }

}  // namespace

bool StreamChoice::serves(const Stream& stream, const policy::KvMethod& method) {
  // Scores that are carried on, and shares by more than single queries' entropy, are made on the host.
  const policy::KvOptions& options = method.options();
  const bool carries = options.carry > 0 && options.repeat > 0;
  const bool scored = options.layers == policy::KvLayers::kDistinct || options.layers == policy::KvLayers::kMass ||
                      options.layers == policy::KvLayers::kEntropyRest || options.share == policy::KvShare::kDistinct;
  // The host pools scores up to the window, whatever the share of the latest slots.
  const bool pools_otherwise = options.recent > 0 && options.kernel > 1;
  // Where a kv_head has one score for all its heads, these do not choose each for itself here.
  const bool apart =
      method.needs().keys != policy::KeyMeasure::kNone && options.granularity == policy::KvGranularity::kHead;
  return stream.chooses_slots() && !pools_otherwise && method.rates_measures() && options.kernel <= kMostPooled &&
         !carries && !scored && !apart;
}

bool StreamChoice::by_attention() const {
  const policy::KvNeeds needs = run_.method.needs();
  return !by_keys() && !needs.expected && !needs.accumulated;
}

bool StreamChoice::by_keys() const { return run_.method.scores_by_keys(); }

int64_t StreamChoice::most_sets() const { return std::max(run_.method.num_sets(), run_.shape.kv_heads); }

Status StreamChoice::reserve(Stream& stream) {
  if (run_.layers.empty()) return {};
  const int64_t sets = most_sets();
  const auto layers = static_cast<int64_t>(run_.layers.size());
  EI_ASSIGN_OR_RETURN(const Matrix ratings, stream.scratch(kRatings, sets, run_.slots));
  ratings_ = ratings.data;
  if (!by_attention() && stream.measures_slots()) {
    const int64_t rows = by_keys() ? run_.shape.kv_heads : run_.shape.heads;
    EI_ASSIGN_OR_RETURN(measured_, stream.scratch(kMeasuredThere, rows, run_.slots));
  }
  if (shares_with_keys() && stream.measures_slots()) {
    EI_ASSIGN_OR_RETURN(keys_, stream.scratch(kKeysThere, run_.shape.kv_heads, run_.slots));
  }
  // A layer's budget is at most all slots of the others; a set's, where sets share unevenly, what all have together.
  most_ = std::min(run_.slots, run_.budgets.empty() ? run_.budget * layers
                                                    : *std::max_element(run_.budgets.begin(), run_.budgets.end()));
  if (adaptive(run_.method.options())) most_ = std::min(sets * run_.slots, most_ * sets);
  EI_ASSIGN_OR_RETURN(float* chosen, stream.shared(kChosen, (shares_with_keys() ? 2 : 1) * sets * most_));
  EI_ASSIGN_OR_RETURN(float* counts, stream.shared(kCounts, layers * counts_of_layer()));
  chosen_ = reinterpret_cast<int32_t*>(chosen);
  counts_ = reinterpret_cast<int32_t*>(counts);
  if (asks_spreads()) {
    EI_ASSIGN_OR_RETURN(spreads_, stream.shared(kSpreads, sets));
  }
  return {};
}

Status StreamChoice::measure_shares(Stream& stream) {
  for (size_t index = 0; index < run_.layers.size(); ++index) {
    attention_.record(stream, run_, index);
    stream.host([this, index] {
      const std::span<const float> entropies = attention_.entropies();
      for (const float one : entropies)
        run_.states[index].entropy += static_cast<double>(one) / static_cast<double>(entropies.size());
    });
  }
  EI_RETURN_IF_ERROR(stream.synchronize());
  run_.share_out();
  return {};
}

Result<const float*> StreamChoice::measure(Stream& stream, size_t index) const {
  if (by_attention()) {
    attention_.record(stream, run_, index);
    return attention_.scores();
  }
  if (stream.measures_slots()) {
    const int64_t longest = longest_head(run_.view(index));
    const Matrix scores{measured_.data, measured_.rows, longest, longest};
    EI_RETURN_IF_ERROR(rate_.measure_there(stream, index, scores));
    return static_cast<const float*>(scores.data);
  }
  EI_ASSIGN_OR_RETURN(RateStep::Measured measured, rate_.measure(stream, index));
  for (float& one : measured.keys) one = -one;  // as KvMethod::score() has it
  const std::vector<float>& scores = !measured.keys.empty()       ? measured.keys
                                     : !measured.expected.empty() ? measured.expected
                                                                  : measured.accumulated;
  return static_cast<const float*>(stream.stage(scores.data(), scores.size() * sizeof(float)));
}

Status StreamChoice::record(Stream& stream, size_t index) {
  EI_ASSIGN_OR_RETURN(const float* scores, measure(stream, index));
  const policy::KvOptions& options = run_.method.options();
  const KvView view = run_.view(index);
  const int64_t recent = run_.method.recent(run_.budgets[index]);
  const policy::LayerSets sets = run_.method.sets_of(lengths_of(view), aligned(view), recent);
  const std::vector<int64_t>& slots = sets.slots;
  const auto each = static_cast<int64_t>(slots.size());
  const auto base = static_cast<int32_t>(std::max<int64_t>(0, run_.budgets[index] - recent));
  int32_t* counts = counts_ + static_cast<int64_t>(index) * counts_of_layer();
  stream.rate_slots({.scores = scores,
                     .stride = longest_head(view),
                     .group = by_keys() ? run_.shape.kv_heads / static_cast<int32_t>(each) : sets.group,
                     .slots = slots,
                     .mean_of_group = options.aggregate == policy::GroupAggregate::kMean,
                     .mean_of_near = options.pooling == policy::Pooling::kAverage,
                     .kernel = options.kernel,
                     .sinks = options.sinks,
                     .ratings = ratings_});
  if (asks_spreads()) {
    stream.spread_slots(
        {.ratings = ratings_, .slots = slots, .first = policy::first_that_count(options), .spreads = spreads_});
  }
  if (adaptive(options)) {
    const std::vector<int64_t> together = {sum(slots)};
    int32_t* total = counts + each;
    *total = static_cast<int32_t>(std::min(base * each, together[0]));
    stream.choose_slots({.ratings = ratings_, .slots = together, .counts = total, .chosen = chosen_, .stride = most_});
    stream.host([this, slots, base, total, counts] {
      share_on_host(slots, base, *total, counts);
      split_counts(static_cast<int64_t>(slots.size()), counts);
    });
  } else {
    const auto count = [this, each, base, counts] {
      std::fill_n(counts, each, base);
      split_counts(each, counts);
    };
    if (asks_spreads()) {
      stream.host(count);
    } else {
      count();
    }
  }
  stream.choose_slots({.ratings = ratings_, .slots = slots, .counts = counts, .chosen = chosen_, .stride = most_});
  if (shares_with_keys()) EI_RETURN_IF_ERROR(record_keys(stream, index, slots, counts));
  stream.host([this, index, slots, counts] { lists_on_host(index, slots, counts); });
  return {};
}

Status StreamChoice::record_keys(Stream& stream, size_t index, std::span<const int64_t> slots, const int32_t* counts) {
  const KvView view = run_.view(index);
  const int64_t longest = longest_head(view);
  const float* keys = keys_.data;
  if (stream.measures_slots()) {
    score_keys(stream, view, policy::KeyMeasure::kCosine, {keys_.data, keys_.rows, longest, longest});
  } else {
    EI_ASSIGN_OR_RETURN(RateStep::Measured measured, rate_.measure(stream, index));
    for (float& one : measured.keys) one = -one;
    keys = static_cast<const float*>(stream.stage(measured.keys.data(), measured.keys.size() * sizeof(float)));
  }
  stream.rate_slots({.scores = keys,
                     .stride = longest,
                     .group = std::max(1, run_.shape.kv_heads / static_cast<int32_t>(slots.size())),
                     .slots = slots,
                     .ratings = ratings_});
  stream.leave_out_slots({.chosen = chosen_, .counts = counts, .stride = most_, .slots = slots, .ratings = ratings_});
  stream.choose_slots({.ratings = ratings_,
                       .slots = slots,
                       .counts = by_keys_of(counts),
                       .chosen = chosen_ + most_sets() * most_,
                       .stride = most_});
  return {};
}

void StreamChoice::split_counts(int64_t sets, int32_t* counts) const {
  if (!shares_with_keys()) return;
  for (int64_t set = 0; set < sets; ++set) {
    const double spread = asks_spreads() ? static_cast<double>(spreads_[set]) : 0;
    const auto by_keys = static_cast<int32_t>(policy::count_by_keys(run_.method.options(), counts[set], spread));
    counts[set] -= by_keys;
    by_keys_of(counts)[set] = by_keys;
  }
}

void StreamChoice::share_on_host(std::span<const int64_t> slots, int32_t base, int32_t total, int32_t* counts) const {
  const std::vector<int64_t> best = policy::counts_among({chosen_, static_cast<size_t>(total)}, slots);
  const std::vector<int64_t> shares = policy::share_slots(run_.method.options(), best, slots, base);
  std::transform(shares.begin(), shares.end(), counts, [](int64_t one) { return static_cast<int32_t>(one); });
}

void StreamChoice::lists_on_host(size_t index, std::span<const int64_t> slots, const int32_t* counts) {
  const std::vector<int64_t> lengths = lengths_of(run_.view(index));
  std::vector<KeepList> lists;
  for (size_t set = 0; set < slots.size(); ++set) {
    const int64_t length = lengths[set * lengths.size() / slots.size()];
    const int32_t* from = chosen_ + static_cast<int64_t>(set) * most_;
    KeepList& list = lists.emplace_back(from, from + std::min<int64_t>(counts[set], slots[set]));
    if (shares_with_keys()) {
      const int32_t* others = from + most_sets() * most_;
      list = policy::union_of(list, {others, others + std::min<int64_t>(by_keys_of(counts)[set], slots[set])});
    }
    const auto best = static_cast<std::ptrdiff_t>(list.size());
    list.resize(list.size() + static_cast<size_t>(length - slots[set]));
    std::iota(list.begin() + best, list.end(), static_cast<int32_t>(slots[set]));
  }
  run_.keeps_of(index) = policy::KvMethod::united(lists, lengths);
}

}  // namespace ei::kv
