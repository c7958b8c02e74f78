// A compression whose stream rates and chooses slots itself: measurements stay where they were made, counts go there
// and lists come back.
#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "kv/compressor.h"
#include "kv/layer_lengths.h"
#include "policy/kv/head_share.h"

namespace ei::kv {
namespace {

const ScratchSlot kStreamAttention, kRatings, kChosen, kCounts;
constexpr int32_t kMostPooled = 1024;  // neighbours

bool adaptive(const policy::KvOptions& options) { return options.share == policy::KvShare::kAdaptive; }

int64_t sum(std::span<const int64_t> values) { return std::accumulate(values.begin(), values.end(), int64_t{0}); }

// Fewer where a set has not that many.
int64_t chosen_of(std::span<const int64_t> slots, const int32_t* counts, size_t set) {
  return std::min<int64_t>(counts[set], slots[set]);
}

}  // namespace

bool Compressor::chosen_by(const Stream& stream) const {
  // Scores that are carried on, and shares by more than single queries' entropy, are made on the host.
  const bool carries = options().carry > 0 && options().repeat > 0;
  const bool scored = options().layers == policy::KvLayers::kDistinct || options().layers == policy::KvLayers::kMass ||
                      options().layers == policy::KvLayers::kEntropyRest ||
                      options().share == policy::KvShare::kDistinct;
  return stream.chooses_slots() && method_->rates_attention() && options().kernel <= kMostPooled && !carries && !scored;
}

Status Compressor::prepare(Stream& stream, int64_t slots, Decision& decision) const {
  const int64_t sets = std::max(method_->num_sets(), shape_.kv_heads);
  const int64_t all = sets * slots;
  EI_ASSIGN_OR_RETURN(const Matrix attention, stream.scratch(kStreamAttention, shape_.heads, slots));
  EI_ASSIGN_OR_RETURN(const Matrix ratings, stream.scratch(kRatings, sets, slots));
  decision.attention = attention.data;
  decision.rated = ratings.data;
  decision.on_stream = true;
  // A layer's budget is at most all slots of the others; a set's, where sets share unevenly, what all have together.
  const auto layers = static_cast<int64_t>(decision.layers.size());
  decision.most =
      std::min(slots, decision.budgets.empty() ? decision.budget * layers
                                               : *std::max_element(decision.budgets.begin(), decision.budgets.end()));
  if (adaptive(options())) decision.most = std::min(all, decision.most * sets);
  EI_ASSIGN_OR_RETURN(float* chosen, stream.shared(kChosen, sets * decision.most));
  EI_ASSIGN_OR_RETURN(float* counts, stream.shared(kCounts, layers * (sets + 1)));
  decision.chosen = reinterpret_cast<int32_t*>(chosen);
  decision.counts = reinterpret_cast<int32_t*>(counts);
  return {};
}

Status Compressor::measure_entropies(Stream& stream, const Store& store, Decision& decision) const {
  for (size_t index = 0; index < decision.layers.size(); ++index) {
    const int layer = decision.layers[index];
    measure_attention(stream, store.view(layer), layer, decision);
    stream.host([this, index, &decision] {
      const std::span<const float> entropies(decision.entropy, static_cast<size_t>(shape_.heads));
      for (const float one : entropies)
        decision.states[index].entropy += static_cast<double>(one) / static_cast<double>(entropies.size());
    });
  }
  EI_RETURN_IF_ERROR(stream.synchronize());
  decision.budgets = method_->layer_budgets(decision.budget, decision.states);
  return {};
}

void Compressor::choose_on_stream(Stream& stream, const KvView& view, size_t index, Decision& decision) const {
  const policy::KvOptions& options = method_->options();
  const policy::LayerSets sets = method_->sets_of(lengths_of(view), aligned(view));
  const std::vector<int64_t>& slots = sets.slots;
  const auto base = static_cast<int32_t>(std::max<int64_t>(0, decision.budgets[index] - options.window));
  int32_t* counts =
      decision.counts + static_cast<int64_t>(index) * (std::max(method_->num_sets(), shape_.kv_heads) + 1);
  stream.rate_slots({.scores = decision.attention,
                     .stride = longest_head(view),
                     .group = sets.group,
                     .slots = slots,
                     .mean_of_group = options.aggregate == policy::GroupAggregate::kMean,
                     .mean_of_near = options.pooling == policy::Pooling::kAverage,
                     .kernel = options.kernel,
                     .sinks = options.sinks,
                     .ratings = decision.rated});
  const auto each = static_cast<int64_t>(slots.size());
  if (adaptive(options)) {
    const std::vector<int64_t> together = {sum(slots)};
    int32_t* total = counts + each;
    *total = static_cast<int32_t>(std::min(base * each, together[0]));
    stream.choose_slots({.ratings = decision.rated,
                         .slots = together,
                         .counts = total,
                         .chosen = decision.chosen,
                         .stride = decision.most});
    stream.host([this, slots, base, counts, total, &decision] {
      const std::vector<int64_t> best = policy::counts_among({decision.chosen, static_cast<size_t>(*total)}, slots);
      const std::vector<int64_t> shares = policy::share_slots(method_->options(), best, slots, base);
      std::transform(shares.begin(), shares.end(), counts, [](int64_t one) { return static_cast<int32_t>(one); });
    });
  } else {
    std::fill_n(counts, each, base);
  }
  stream.choose_slots({.ratings = decision.rated,
                       .slots = slots,
                       .counts = counts,
                       .chosen = decision.chosen,
                       .stride = decision.most});
  stream.host([view, slots, counts, layer = decision.layers[index], &decision] {
    const std::vector<int64_t> lengths = lengths_of(view);
    std::vector<KeepList> lists;
    for (size_t set = 0; set < slots.size(); ++set) {
      const int64_t length = lengths[set * lengths.size() / slots.size()];
      const int32_t* from = decision.chosen + static_cast<int64_t>(set) * decision.most;
      KeepList& list = lists.emplace_back(from, from + chosen_of(slots, counts, set));
      const auto best = static_cast<std::ptrdiff_t>(list.size());
      list.resize(list.size() + static_cast<size_t>(length - slots[set]));
      std::iota(list.begin() + best, list.end(), static_cast<int32_t>(slots[set]));
    }
    decision.keeps[static_cast<size_t>(layer)] = policy::KvMethod::united(lists, lengths);
  });
}

}  // namespace ei::kv
