// Methods of the cache that score slots by attention, written once more, slow and obvious, from the words of
// docs/methods.md: the slots that each kv_head keeps of a made-up trace.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "policy/kv/options.h"
#include "support/kv_run.h"

namespace ei::testing {

using PlainScores = std::vector<double>;

// Every slot by `kernel` neighbours, itself in the middle: their mean, where what lies outside counts as 0, or the
// largest.
inline PlainScores plain_pooled(const PlainScores& scores, policy::Pooling pooling, int32_t kernel) {
  PlainScores pooled;
  const auto slots = static_cast<int64_t>(scores.size());
  for (int64_t slot = 0; slot < slots; ++slot) {
    double sum = 0;
    double largest = -std::numeric_limits<double>::infinity();
    for (int64_t near = slot - kernel / 2; near <= slot + kernel / 2; ++near) {
      if (near < 0 || near >= slots) continue;
      sum += scores[static_cast<size_t>(near)];
      largest = std::max(largest, scores[static_cast<size_t>(near)]);
    }
    pooled.push_back(pooling == policy::Pooling::kMax ? largest : sum / kernel);
  }
  return pooled;
}

// The exponential of the entropy of what is above 0 from `first` on.
inline double plain_spread(const PlainScores& scores, size_t first) {
  double sum = 0;
  for (size_t slot = first; slot < scores.size(); ++slot) sum += std::max(0.0, scores[slot]);
  double entropy = 0;
  for (size_t slot = first; slot < scores.size(); ++slot)
    if (scores[slot] > 0) entropy -= scores[slot] / sum * std::log(scores[slot] / sum);
  return sum > 0 ? std::exp(entropy) : 0;
}

// The `count` best, ascending, the earlier of equals.
inline std::vector<int32_t> plain_best(const PlainScores& scores, int64_t count) {
  std::vector<int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
  });
  order.resize(static_cast<size_t>(std::clamp<int64_t>(count, 0, static_cast<int64_t>(order.size()))));
  std::sort(order.begin(), order.end());
  return order;
}

// The `count` best slots of those that have scores, and all behind them.
inline KeepList plain_keep(const PlainScores& scores, int64_t count, int64_t length) {
  KeepList keep = plain_best(scores, count);
  for (auto slot = static_cast<int64_t>(scores.size()); slot < length; ++slot)
    keep.push_back(static_cast<int32_t>(slot));
  return keep;
}

// `total` whole slots. Everybody gets the least and, in proportion to the weights, of what is left; who holds no more
// than that has all he holds, and the others divide again. What is no whole slot goes to the largest remainders.
inline std::vector<int64_t> plain_shares(const PlainScores& weights, int64_t total, int64_t least,
                                         const std::vector<int64_t>& held) {
  const size_t n = weights.size();
  std::vector<bool> full(n);
  PlainScores shares(n);
  for (bool again = true; again;) {
    again = false;
    auto left = static_cast<double>(total);
    double sum = 0;
    double open = 0;
    for (size_t i = 0; i < n; ++i) {
      left -= static_cast<double>(full[i] ? held[i] : least);
      sum += full[i] ? 0 : weights[i];
      open += full[i] ? 0 : 1;
    }
    for (size_t i = 0; i < n; ++i) {
      if (full[i]) continue;
      shares[i] = static_cast<double>(least) + std::max(left, 0.0) * (sum > 0 ? weights[i] / sum : 1 / open);
      if (shares[i] < static_cast<double>(held[i])) continue;
      shares[i] = static_cast<double>(held[i]);
      full[i] = again = true;
    }
  }
  std::vector<int64_t> whole;
  PlainScores remainders;
  for (const double share : shares) {
    whole.push_back(static_cast<int64_t>(share));
    remainders.push_back(share - std::floor(share));
  }
  int64_t left = total - std::accumulate(whole.begin(), whole.end(), int64_t{0});
  for (size_t round = 0; round < n && left > 0; ++round) {
    const auto largest = std::max_element(remainders.begin(), remainders.end());
    const auto i = static_cast<size_t>(largest - remainders.begin());
    *largest = -1;
    if (whole[i] == held[i]) continue;
    ++whole[i];
    --left;
  }
  return whole;
}

class PlainKv {
 public:
  PlainKv(const policy::KvOptions& options, const KvTrace& trace) : options_(options), trace_(trace) {
    text_ = *std::max_element(trace.lengths.begin(), trace.lengths.end());
    sets_ = trace.shape.kv_heads;
    if (options.granularity == policy::KvGranularity::kHead) sets_ = trace.shape.heads;
    if (options.granularity == policy::KvGranularity::kLayer) sets_ = 1;
  }

  // Slots per kv_head, in the mean.
  int64_t budget() const {
    if (options_.budget_share > 0) {
      const double slots = std::ceil(options_.budget_share * static_cast<double>(text_)) + options_.budget_base;
      return std::max<int64_t>(static_cast<int64_t>(slots), options_.window + options_.sinks + 1);
    }
    const int64_t slot_in_all = trace_.shape.layers * trace_.shape.kv_heads * trace_.shape.slot_bytes;
    return options_.budget_bytes > 0 ? options_.budget_bytes / slot_in_all : options_.budget;
  }

  // [layers][kv_heads]; an empty list: everything.
  KvKeeps keeps() const {
    KvKeeps keeps(static_cast<size_t>(trace_.shape.layers), std::vector<KeepList>(trace_.lengths.size()));
    if (text_ <= budget()) return keeps;
    const std::vector<int64_t> budgets = layer_budgets();
    for (int32_t layer = 0; layer < trace_.shape.layers; ++layer)
      if (budgets[static_cast<size_t>(layer)] < held())
        keeps[static_cast<size_t>(layer)] = layer_keeps(layer, budgets[static_cast<size_t>(layer)]);
    return keeps;
  }

 private:
  bool exact() const { return options_.rounding == policy::KvRounding::kExact || options_.budget_bytes > 0; }
  // What is compared with a budget: the longest, or where kv_heads have uneven shares their mean.
  int64_t held() const {
    if (options_.share == policy::KvShare::kFlat) return text_;
    const double sum = static_cast<double>(trace_.held());
    return static_cast<int64_t>(std::ceil(sum / static_cast<double>(trace_.lengths.size())));
  }
  int64_t length_of(int32_t set) const {
    return trace_.lengths[static_cast<size_t>(set * trace_.shape.kv_heads / sets_)];
  }
  int64_t slots_outside(int32_t set, int64_t latest) const { return std::max<int64_t>(0, length_of(set) - latest); }
  // The query heads that choose together.
  std::vector<int32_t> heads_of(int32_t set) const {
    std::vector<int32_t> heads;
    for (int32_t head = 0; head < trace_.shape.heads; ++head)
      if (head * sets_ / trace_.shape.heads == set) heads.push_back(head);
    return heads;
  }
  bool chooses_for(int32_t set, int32_t kv_head) const {
    const std::vector<int32_t> heads = heads_of(set);
    return std::any_of(heads.begin(), heads.end(),
                       [&](int32_t head) { return head / trace_.shape.group() == kv_head; });
  }
  double attention(int32_t layer, int32_t head, int64_t slot) const {
    return static_cast<double>(
        trace_.attention[static_cast<size_t>(layer)][static_cast<size_t>(head * trace_.stride + slot)]);
  }

  // Of the slots outside the window: the mean over the heads, or the largest, and then over neighbours; sinks stay.
  PlainScores scores(int32_t layer, int32_t set) const {
    const std::vector<int32_t> heads = heads_of(set);
    PlainScores together;
    for (int64_t slot = 0; slot < slots_outside(set, options_.window); ++slot) {
      double sum = 0;
      double largest = 0;
      for (const int32_t head : heads) {
        sum += attention(layer, head, slot);
        largest = std::max(largest, attention(layer, head, slot));
      }
      const bool mean = options_.aggregate == policy::GroupAggregate::kMean;
      together.push_back(mean ? sum / static_cast<double>(heads.size()) : largest);
    }
    PlainScores pooled = plain_pooled(together, options_.pooling, options_.kernel);
    for (size_t slot = 0; slot < pooled.size() && slot < static_cast<size_t>(options_.sinks); ++slot)
      pooled[slot] = std::numeric_limits<double>::infinity();
    return pooled;
  }

  // How unlike the mean key a set's keys are, in the mean over its kv_heads: the trace has cosines.
  PlainScores unlike(int32_t layer, int32_t set) const {
    PlainScores unlike;
    for (int64_t slot = 0; slot < slots_outside(set, options_.window); ++slot) {
      double sum = 0;
      double heads = 0;
      for (int32_t kv_head = 0; kv_head < trace_.shape.kv_heads; ++kv_head) {
        if (!chooses_for(set, kv_head)) continue;
        const auto at = static_cast<size_t>(kv_head * trace_.stride + slot);
        sum -= static_cast<double>(trace_.keys[static_cast<size_t>(layer)][at]);
        ++heads;
      }
      unlike.push_back(sum / heads);
    }
    return unlike;
  }

  // The best by scores, sinks among them, and a share for the most unlike of the others.
  KeepList best_of(int32_t layer, int32_t set, const PlainScores& worth, int64_t count, int64_t length) const {
    auto others = static_cast<int64_t>(std::round(options_.key_share * static_cast<double>(count)));
    const double attended =
        std::ceil(options_.attended * plain_spread(worth, static_cast<size_t>(std::max(4, options_.sinks))));
    while (others > 0 && (count - others < options_.sinks || static_cast<double>(count - others) < attended)) --others;
    if (others == 0) return plain_keep(worth, count, length);
    KeepList keep = plain_keep(worth, count - others, length);
    PlainScores left = unlike(layer, set);
    left.resize(worth.size());
    for (const int32_t slot : keep)
      if (static_cast<size_t>(slot) < left.size())
        left[static_cast<size_t>(slot)] = -std::numeric_limits<double>::infinity();
    for (const int32_t slot : plain_best(left, others))
      if (std::find(keep.begin(), keep.end(), slot) == keep.end()) keep.push_back(slot);
    std::sort(keep.begin(), keep.end());
    return keep;
  }

  // E of single queries and H of the mean attention, of the heads that are given.
  double entropy(int32_t layer, const std::vector<int32_t>& heads) const {
    double sum = 0;
    for (const int32_t head : heads)
      sum += static_cast<double>(trace_.row_entropy[static_cast<size_t>(layer)][static_cast<size_t>(head)]);
    return sum / static_cast<double>(heads.size());
  }
  double mean_entropy(int32_t layer, const std::vector<int32_t>& heads) const {
    double sum = 0;
    for (const int32_t head : heads) {
      const auto kv_head = static_cast<size_t>(head / trace_.shape.group());
      for (int64_t slot = 0; slot < trace_.lengths[kv_head]; ++slot) {
        const double share = attention(layer, head, slot);
        if (share > 0) sum -= share * std::log(share);
      }
    }
    return sum / static_cast<double>(heads.size());
  }
  std::vector<int32_t> all_heads() const {
    std::vector<int32_t> heads(static_cast<size_t>(trace_.shape.heads));
    std::iota(heads.begin(), heads.end(), 0);
    return heads;
  }

  std::vector<int64_t> layer_budgets() const {
    using policy::KvLayers;
    const auto layers = static_cast<size_t>(trace_.shape.layers);
    if (options_.layers == KvLayers::kFlat) return std::vector<int64_t>(layers, budget());
    if (options_.layers == KvLayers::kPyramid) return pyramid();
    PlainScores entropies;
    for (size_t layer = 0; layer < layers; ++layer)
      entropies.push_back(entropy(static_cast<int32_t>(layer), all_heads()));
    const double most = *std::max_element(entropies.begin(), entropies.end());
    const double least = *std::min_element(entropies.begin(), entropies.end());
    PlainScores weights;
    if (options_.layers == KvLayers::kMass) weights = best_of_all();
    for (size_t layer = weights.size(); layer < layers; ++layer) {
      const double own = entropies[layer];
      switch (options_.layers) {
        case KvLayers::kSpread: weights.push_back(std::exp(own)); break;
        case KvLayers::kFocus: weights.push_back(std::exp(-own)); break;
        case KvLayers::kDistinct:
          weights.push_back(std::exp(mean_entropy(static_cast<int32_t>(layer), all_heads()) - own));
          break;
        case KvLayers::kEntropyInverse: weights.push_back(most + least - own); break;
        default: weights.push_back(own);
      }
    }
    const auto floor = static_cast<int64_t>(options_.floor_share * static_cast<double>(budget()));
    return plain_shares(weights, budget() * static_cast<int64_t>(layers),
                        std::max<int64_t>(floor, options_.window + options_.sinks),
                        std::vector<int64_t>(layers, text_));
  }

  // From 2 base - base / 20 in the first layer to base / 20 in the last, base = B - W; cut to what there is.
  std::vector<int64_t> pyramid() const {
    const int64_t layers = trace_.shape.layers;
    const int64_t base = budget() - options_.window;
    const int64_t there = text_ - options_.window;
    int64_t last = std::max<int64_t>(base / 20, options_.sinks);
    int64_t first = 2 * base - last;
    if (first >= there) {
      first = there;
      last = 2 * base - there;
    }
    PlainScores line;
    std::vector<int64_t> steps;
    for (int64_t layer = 0; layer < layers; ++layer) {
      const double down =
          layers > 1 ? static_cast<double>(layer * (first - last)) / static_cast<double>(layers - 1) : 0;
      line.push_back(static_cast<double>(layers > 1 ? first : base) - down);
      steps.push_back(layers > 1 ? first - layer * ((first - last) / (layers - 1)) : base);
    }
    std::vector<int64_t> budgets =
        exact() ? plain_shares(line, base * layers, 0, std::vector<int64_t>(line.size(), there)) : steps;
    for (int64_t& one : budgets) one += options_.window;
    return budgets;
  }

  // Of as many slots outside the window as all layers keep, the best of all: how many are each layer's?
  PlainScores best_of_all() const {
    PlainScores all;
    std::vector<size_t> owners;
    PlainScores counts(static_cast<size_t>(trace_.shape.layers));
    for (size_t layer = 0; layer < counts.size(); ++layer) {
      for (int32_t set = 0; set < sets_; ++set) {
        const PlainScores own = scores(static_cast<int32_t>(layer), set);
        all.insert(all.end(), own.begin(), own.end());
        owners.resize(all.size(), layer);
      }
    }
    for (const int32_t slot : plain_best(all, (budget() - options_.window) * sets_ * trace_.shape.layers))
      ++counts[owners[static_cast<size_t>(slot)]];
    return counts;
  }

  std::vector<KeepList> layer_keeps(int32_t layer, int64_t budget) const {
    // The window, or a share of the budget, but for the sinks and one more.
    const auto share = static_cast<int64_t>(options_.recent * static_cast<double>(budget));
    const int64_t latest = std::max<int64_t>(options_.window, std::min(share, budget - options_.sinks - 1));
    std::vector<PlainScores> worth;
    for (int32_t set = 0; set < sets_; ++set) {
      worth.push_back(scores(layer, set));
      worth.back().resize(static_cast<size_t>(slots_outside(set, latest)));
    }
    const std::vector<int64_t> counts = set_counts(layer, worth, std::max<int64_t>(0, budget - latest));
    std::vector<KeepList> keeps;
    for (int32_t kv_head = 0; kv_head < trace_.shape.kv_heads; ++kv_head) {
      std::vector<bool> stays(static_cast<size_t>(trace_.lengths[static_cast<size_t>(kv_head)]));
      for (size_t set = 0; set < worth.size(); ++set) {
        if (!chooses_for(static_cast<int32_t>(set), kv_head)) continue;
        for (const int32_t slot :
             best_of(layer, static_cast<int32_t>(set), worth[set], counts[set], static_cast<int64_t>(stays.size())))
          stays[static_cast<size_t>(slot)] = true;
      }
      KeepList& keep = keeps.emplace_back();
      for (size_t slot = 0; slot < stays.size(); ++slot)
        if (stays[slot]) keep.push_back(static_cast<int32_t>(slot));
      if (keep.size() == stays.size()) keep.clear();
    }
    return keeps;
  }

  // Of each set: all the same, by AdaKV, or by how many different places its queries look at.
  std::vector<int64_t> set_counts(int32_t layer, const std::vector<PlainScores>& worth, int64_t base) const {
    if (options_.share == policy::KvShare::kFlat) return std::vector<int64_t>(worth.size(), base);
    const double floor = std::floor(options_.floor_share * static_cast<double>(base));
    const auto total = base * static_cast<int64_t>(worth.size());
    std::vector<int64_t> slots;
    PlainScores all;
    for (const PlainScores& one : worth) {
      slots.push_back(static_cast<int64_t>(one.size()));
      all.insert(all.end(), one.begin(), one.end());
    }
    PlainScores weights;
    if (options_.share == policy::KvShare::kDistinct) {
      for (int32_t set = 0; set < sets_; ++set)
        weights.push_back(std::exp(mean_entropy(layer, heads_of(set)) - entropy(layer, heads_of(set))));
      const auto least = std::max<int64_t>(static_cast<int64_t>(floor), options_.sinks);
      return plain_shares(weights, total, std::min(base, least), slots);
    }
    const std::vector<int32_t> best = plain_best(all, total);
    int64_t begin = 0;
    for (const int64_t own : slots) {
      const auto mine =
          std::count_if(best.begin(), best.end(), [&](int32_t slot) { return begin <= slot && slot < begin + own; });
      weights.push_back((1 - options_.floor_share) * static_cast<double>(mine) + floor);
      begin += own;
    }
    if (exact()) return plain_shares(weights, total, std::min<int64_t>(base, options_.sinks), slots);
    std::vector<int64_t> counts;
    for (size_t set = 0; set < weights.size(); ++set) {
      // Halves to the even number.
      auto rounded = static_cast<int64_t>(std::floor(weights[set] + 0.5));
      if (weights[set] + 0.5 == static_cast<double>(rounded) && rounded % 2 != 0) --rounded;
      counts.push_back(std::min(std::max<int64_t>(rounded, options_.sinks), slots[set]));
    }
    return counts;
  }

  const policy::KvOptions& options_;
  const KvTrace& trace_;
  int64_t text_ = 0;
  int32_t sets_ = 1;
};

}  // namespace ei::testing
