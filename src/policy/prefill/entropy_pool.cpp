#include "policy/prefill/entropy_pool.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "base/random.h"

namespace ei::policy {

namespace {

LayerRecords::const_iterator first_from(const LayerRecords& layer, int32_t segment) {
  return std::partition_point(layer.begin(), layer.end(),
                              [&](const SegmentRecord& record) { return record.segment < segment; });
}

}  // namespace

std::vector<HeadWeight> weights_before(std::span<const LayerRecords> layers, int32_t known, const WeightOf& weight) {
  std::vector<HeadWeight> weights;
  for (size_t l = 0; l < layers.size(); ++l) {
    const LayerRecords& layer = layers[l];
    const auto behind = first_from(layer, known);
    if (behind == layer.begin()) continue;
    const std::vector<HeadRecord>& heads = std::prev(behind)->heads;
    for (size_t h = 0; h < heads.size(); ++h)
      if (heads[h].means.samples > 0) weights.push_back({{static_cast<int32_t>(l), h}, weight(heads[h].means)});
  }
  return weights;
}

double kappa_of(const std::vector<HeadWeight>& weights, double density) {
  const auto mean = [&](double kappa) {
    double sum = 0;
    for (const HeadWeight& one : weights) sum += share_of(kappa, one.value);
    return sum / static_cast<double>(weights.size());
  };
  // It lies between what would do if all weights were the largest, and if all were the least.
  const auto [least, largest] = std::minmax_element(
      weights.begin(), weights.end(), [](const HeadWeight& a, const HeadWeight& b) { return a.value < b.value; });
  double low = odds(density) / largest->value;
  double high = odds(density) / least->value;
  constexpr int kHalvings = 60;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = std::sqrt(low * high);
    (mean(middle) < density ? low : high) = middle;
  }
  return low;
}

double overshoot(std::span<const LayerRecords> layers, int32_t known, const WeightOf& weight) {
  double read = 0;
  double wanted = 0;
  for (const LayerRecords& layer : layers) {
    for (auto record = first_from(layer, known - kPoolSegments); record != layer.end() && record->segment < known;
         ++record) {
      if (record->pool.filled == 0) continue;
      for (const HeadRecord& head : record->heads) {
        if (head.means.samples == 0) continue;
        read += share_of(record->pool.filled, weight(head.means));
        wanted += record->pool.density;
      }
    }
  }
  return read > 0 ? read / wanted : 1;
}

double shuffled_weight(const std::vector<HeadWeight>& weights, HeadPlace place, int32_t seed, double own) {
  std::vector<double> values;
  values.reserve(weights.size());
  for (const HeadWeight& one : weights) values.push_back(one.value);
  Random random(static_cast<uint64_t>(seed));
  for (size_t i = values.size(); i > 1; --i)
    std::swap(values[i - 1], values[static_cast<size_t>(random.below(static_cast<int64_t>(i)))]);
  for (size_t i = 0; i < weights.size(); ++i)
    if (weights[i].place == place) return values[i];
  return own;
}

}  // namespace ei::policy
