// What one density of a pool of segments comes to for every kv_head: kappa, by the weights that all layers knew at the
// pool's beginning (entropyinfer.cpp has the equations).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "policy/prefill/method.h"

namespace ei::policy {

constexpr int32_t kPoolSegments = 8;
// The first segment of the pool that `segment` is in.
inline int32_t pool_begin(int32_t segment) { return segment / kPoolSegments * kPoolSegments; }

struct HeadPlace {
  int32_t layer;
  size_t kv_head;
  bool operator==(const HeadPlace&) const = default;
};
struct HeadWeight {
  HeadPlace place;
  double value;
};
using WeightOf = std::function<double(const SampleMeans&)>;

inline double odds(double share) { return share / (1 - share); }
inline double share_of(double kappa, double weight) { return kappa * weight / (1 + kappa * weight); }

// Of all kv_heads that were sampled before segment `known`.
std::vector<HeadWeight> weights_before(std::span<const LayerRecords> layers, int32_t known, const WeightOf& weight);

// kappa with mean over share_of(kappa, weight) = density.
double kappa_of(const std::vector<HeadWeight>& weights, double density);

// How much more than its density the pool before segment `known` would have read by what was known at its beginning.
double overshoot(std::span<const LayerRecords> layers, int32_t known, const WeightOf& weight);

// For research: the weight that a kv_head gets when all change places; its `own` where it has none among them.
double shuffled_weight(const std::vector<HeadWeight>& weights, HeadPlace place, int32_t seed, double own);

}  // namespace ei::policy
