// Drives a KV method as the compressor does, over measurements made up for the purpose: for tests without a model.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "base/random.h"
#include "policy/kv/method.h"

namespace ei::testing {

// What would be measured of the layers of a cache.
struct KvTrace {
  policy::KvShape shape;
  std::vector<int64_t> lengths;               // [kv_heads], the same in all layers
  std::vector<std::vector<float>> attention;  // [layers][heads * stride]
  int64_t stride = 0;
  std::vector<std::vector<float>> row_entropy;  // [layers][heads]
  std::vector<std::vector<float>> keys;         // [layers][kv_heads * stride]

  int64_t held() const {
    int64_t slots = 0;
    for (const int64_t length : lengths) slots += length;
    return slots;
  }
};

// kv_heads of different sharpness, all of `length` slots.
inline KvTrace random_kv_trace(uint64_t seed, int64_t length) {
  Random random(seed);
  KvTrace trace;
  trace.shape.layers = static_cast<int32_t>(random.between(1, 5));
  trace.shape.kv_heads = static_cast<int32_t>(random.between(1, 4));
  trace.shape.heads = trace.shape.kv_heads * static_cast<int32_t>(random.between(1, 4));
  trace.lengths.assign(static_cast<size_t>(trace.shape.kv_heads), length);
  trace.stride = length + 3;
  for (int32_t layer = 0; layer < trace.shape.layers; ++layer) {
    std::vector<float>& scores = trace.attention.emplace_back();
    std::vector<float>& entropies = trace.row_entropy.emplace_back();
    std::vector<float>& keys = trace.keys.emplace_back();
    for (int64_t i = 0; i < trace.shape.kv_heads * trace.stride; ++i) keys.push_back(random.normal());
    for (int32_t head = 0; head < trace.shape.heads; ++head) {
      const float sharpness = 2 * random.normal();
      for (int64_t slot = 0; slot < trace.stride; ++slot) scores.push_back(std::exp(sharpness * random.normal()));
      entropies.push_back(static_cast<float>(random.below(1000)) / 200);
    }
  }
  return trace;
}

// What is kept: [layers][kv_heads]; an empty list: everything.
using KvKeeps = std::vector<std::vector<KeepList>>;

inline KvKeeps run_kv_method(const policy::KvOptions& options, const KvTrace& trace) {
  const std::unique_ptr<policy::KvMethod> method = policy::make_kv_method(options, trace.shape);
  const auto layers = static_cast<size_t>(trace.shape.layers);
  const int64_t longest = *std::max_element(trace.lengths.begin(), trace.lengths.end());
  const int64_t budget = method->budget_at(longest);
  KvKeeps keeps(layers, std::vector<KeepList>(trace.lengths.size()));
  if (longest <= budget) return keeps;
  std::vector<policy::LayerState> states(layers, {.held = longest});
  std::vector<policy::LayerRating> ratings;
  ratings.reserve(layers);  // states look into them
  for (size_t layer = 0; layer < layers; ++layer) {
    policy::LayerMeasures measured{.layer = static_cast<int32_t>(layer),
                                   .lengths = trace.lengths,
                                   .attention = trace.attention[layer].data(),
                                   .stride = trace.stride};
    if (method->needs().keys != policy::KeyMeasure::kNone) measured.keys = trace.keys[layer];
    if (method->needs().accumulated) measured.accumulated = trace.attention[layer];
    if (method->needs().expected) measured.expected = trace.attention[layer];
    if (method->needs().row_entropy) measured.row_entropy = trace.row_entropy[layer];
    ratings.push_back(method->rate(measured));
    states[layer] = ratings.back().state(longest);
  }
  const std::vector<int64_t> budgets = method->layer_budgets(budget, states);
  for (size_t layer = 0; layer < layers; ++layer)
    if (method->held(trace.lengths) > budgets[layer]) keeps[layer] = method->keep(ratings[layer], budgets[layer]);
  return keeps;
}

}  // namespace ei::testing
