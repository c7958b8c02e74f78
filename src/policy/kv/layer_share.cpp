#include "policy/kv/layer_share.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/random.h"
#include "policy/kv/head_share.h"

namespace ei::policy {
namespace {

// Real shares between the limits: what is cut off above goes to those below, until nothing is left over.
std::vector<double> limited_shares(std::span<const double> weights, double total, double least,
                                   std::span<const int64_t> most) {
  std::vector<double> shares(weights.size());
  std::vector<bool> fixed(weights.size(), false);
  for (size_t round = 0; round <= weights.size(); ++round) {
    double left = total;
    double weight = 0;
    size_t open = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      left -= fixed[i] ? shares[i] : least;
      weight += fixed[i] ? 0 : weights[i];
      open += fixed[i] ? 0 : 1;
    }
    bool more = false;
    for (size_t i = 0; i < weights.size(); ++i) {
      if (fixed[i]) continue;
      const double part = weight > 0 ? weights[i] / weight : 1.0 / static_cast<double>(open);
      shares[i] = least + std::max(left, 0.0) * part;
      if (shares[i] < static_cast<double>(most[i])) continue;
      shares[i] = static_cast<double>(most[i]);
      fixed[i] = true;
      more = true;
    }
    if (!more) break;
  }
  return shares;
}

}  // namespace

std::vector<int64_t> apportion(std::span<const double> weights, int64_t total, int64_t least,
                               std::span<const int64_t> most) {
  EI_CHECK_EQ(weights.size(), most.size());
  const std::vector<double> shares =
      limited_shares(weights, static_cast<double>(total), static_cast<double>(least), most);
  std::vector<int64_t> counts;
  counts.reserve(shares.size());
  for (const double share : shares) counts.push_back(static_cast<int64_t>(std::floor(share)));
  std::vector<size_t> order(counts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return shares[a] - std::floor(shares[a]) > shares[b] - std::floor(shares[b]);
  });
  int64_t left = total - std::accumulate(counts.begin(), counts.end(), int64_t{0});
  for (bool gave = true; left > 0 && gave;) {
    gave = false;
    for (const size_t i : order) {
      if (left == 0 || counts[i] >= most[i]) continue;
      ++counts[i];
      --left;
      gave = true;
    }
  }
  return counts;
}

std::vector<int64_t> pyramid_slots(const KvOptions& options, int64_t base, int64_t layers, int64_t longest) {
  constexpr int64_t kSteepness = 20;  // beta of PyramidKV
  int64_t least = std::max<int64_t>(base / kSteepness, options.sinks);
  int64_t most = 2 * base - least;
  if (most >= longest) {
    most = longest;
    least = 2 * base - most;
  }
  const int64_t step = layers > 1 ? (most - least) / (layers - 1) : 0;
  std::vector<int64_t> slots;
  for (int64_t layer = 0; layer < layers; ++layer) slots.push_back((layers > 1 ? most : base) - layer * step);
  if (!options.sums_exactly()) return slots;
  // The same line in real numbers, which meets `base` on average.
  std::vector<double> line;
  for (int64_t layer = 0; layer < layers; ++layer)
    line.push_back(layers > 1 ? static_cast<double>(most) -
                                    static_cast<double>(layer * (most - least)) / static_cast<double>(layers - 1)
                              : static_cast<double>(base));
  const std::vector<int64_t> limits(line.size(), longest);
  return apportion(line, base * layers, 0, limits);
}

namespace {

std::vector<double> counts_of_best(int64_t budget, std::span<const LayerState> layers) {
  std::vector<SlotScores> all;
  for (const LayerState& layer : layers) all.insert(all.end(), layer.sets.begin(), layer.sets.end());
  const std::vector<int64_t> counts = top_counts(all, budget * static_cast<int64_t>(all.size()));
  std::vector<double> weights;
  auto from = counts.begin();
  for (const LayerState& layer : layers) {
    const auto to = from + static_cast<std::ptrdiff_t>(layer.sets.size());
    weights.push_back(static_cast<double>(std::accumulate(from, to, int64_t{0})));
    from = to;
  }
  return weights;
}

}  // namespace

std::vector<double> layer_weights(KvLayers rule, int64_t budget, std::span<const LayerState> layers, int32_t seed) {
  if (rule == KvLayers::kMass) return counts_of_best(budget, layers);
  std::vector<double> weights;
  for (const LayerState& layer : layers) weights.push_back(std::max(layer.entropy, 0.0));
  const auto [least, most] = std::minmax_element(weights.begin(), weights.end());
  const double low = *least;
  const double high = *most;
  if (rule == KvLayers::kSpread) {
    for (double& weight : weights) weight = std::exp(weight - high);  // only their ratio counts
  } else if (rule == KvLayers::kFocus) {
    for (double& weight : weights) weight = std::exp(low - weight);
  } else if (rule == KvLayers::kDistinct) {
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = std::exp(layers[i].mean_entropy - weights[i]);
  } else if (rule == KvLayers::kEntropyRest) {
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = std::max(layers[i].rest_entropy, 0.0);
  } else if (rule == KvLayers::kEntropyInverse) {
    for (double& weight : weights) weight = high + low - weight;
  } else if (rule == KvLayers::kEntropyShuffled) {
    Random random(static_cast<uint64_t>(seed));
    for (size_t i = weights.size(); i > 1; --i)
      std::swap(weights[i - 1], weights[static_cast<size_t>(random.below(static_cast<int64_t>(i)))]);
  }
  return weights;
}

std::vector<int64_t> entropy_budgets(const KvOptions& options, int64_t budget, std::span<const LayerState> layers) {
  std::vector<int64_t> held;
  for (const LayerState& layer : layers) held.push_back(layer.held);
  const auto floor = static_cast<int64_t>(options.floor_share * static_cast<double>(budget));
  const int64_t least = std::max<int64_t>(floor, int64_t{options.window} + options.sinks);
  const std::vector<double> weights =
      layer_weights(options.layers, std::max<int64_t>(0, budget - options.window), layers, options.seed);
  return apportion(weights, budget * static_cast<int64_t>(layers.size()), least, held);
}

}  // namespace ei::policy
