// The default method written once more, slow and obvious, from the words of docs/design.md ("How a block gets chosen"):
// the counts and rankings that it must come to over a made-up trace.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "plan/block_ranking.h"
#include "policy/prefill/options.h"
#include "support/prefill_run.h"

namespace ei::testing {

// How a kv_head ranks, and the rule that says so.
struct PlainRanking {
  std::string_view rule;
  bool latest = true;
  GroupQuery queries = GroupQuery::kEach;
  int64_t rows = 0;
  double blocks = 0;
  double one_more = 0;  // blocks that one more block to read brings along
};

// Slow and obvious: all but what a pool shares is computed again from the trace for every count and ranking.
class PlainEntropy {
 public:
  PlainEntropy(const policy::PrefillOptions& options, const PrefillTrace& trace) : options_(options), trace_(trace) {
    for (int32_t known = 0; known < trace.segments(options); known += 8) {
      const std::vector<double> pool = pool_weights(known);
      pool_kappas_.push_back(pool.empty() ? 0 : kappa(pool, pool_density(known)) / overshoot(known));
    }
  }

  int32_t count(int32_t layer, int32_t segment, size_t h) const {
    if (policy::is_dense_segment(options_, segment, trace_.tokens)) return blocks_before(segment);
    return count_of(segment, weight(layer, segment, h));
  }

  // "What type has the head?" and the table of who rates.
  PlainRanking ranking(int32_t layer, int32_t segment, size_t h) const {
    if (policy::is_dense_segment(options_, segment, trace_.tokens)) return {.rule = "dense"};
    const int64_t begin = int64_t{segment} * options_.segment;
    const int64_t rows = std::min<int64_t>(options_.segment, trace_.tokens - begin);
    const double all = blocks_before(segment);
    const double every_row = trace_.per_key * static_cast<double>(begin) / trace_.products;
    const PlainRanking everything{.rule = "unknown", .latest = false, .rows = rows, .blocks = all};
    const Means means = means_before(layer, segment, h);
    if (!means.known) return everything;

    const double own = 1 - means.sink - means.distant;
    if (means.distant < 0.003 || means.distant < 0.015 * (1 - means.sink)) return {.rule = "local"};
    PlainRanking some = everything;
    some.rule = "every row";
    if (every_row <= 0.3) return some;

    const double read = count_of(segment, weight(layer, segment - 1, h));
    const double least = static_cast<double>(options_.threshold) / options_.block;
    const double places = std::exp(means.segment_entropy - means.row_entropy);
    if (places < 5) {
      some.rule = "few places";
      const double part = std::max(places / 5 * (places / 5), 1.0 / 16);
      some.rows = static_cast<int64_t>(std::ceil(part * static_cast<double>(rows)));
      some.one_more = 2 / part;
      some.blocks = std::min(all, std::max(least, 2 / part * read));
      return some;
    }
    // A quarter of the rows about half of the keys is an eighth of everything.
    const bool each = every_row / 8 <= 0.15;
    if (means.sink > 4 * own) {
      some.rule = each ? "sink head" : "sink group";
      if (!each) some.queries = GroupQuery::kLeastLocal;
      some.rows = std::max<int64_t>(1, rows / 2);
      return some;
    }
    const bool late = 4 * layer >= 3 * trace_.layers;
    some.rule = late ? (each ? "late head" : "late group") : (each ? "diffuse head" : "diffuse group");
    if (!each) some.queries = GroupQuery::kMean;
    some.rows = std::max<int64_t>(1, rows / (late ? 8 : 4));
    some.one_more = 2;
    some.blocks = std::min(all, std::max(least, 2 * read));
    return some;
  }

 private:
  struct Means {
    double sink = 0;
    double distant = 0;
    double segment_entropy = 0;
    double row_entropy = 0;
    bool known = false;
  };

  // A new sample counts for a tenth.
  Means means_before(int32_t layer, int32_t segment, size_t h) const {
    Means means;
    for (int32_t s = 0; s < segment; ++s) {
      if (!sampled(layer, s)) continue;
      const AttentionSample& sample = trace_.at(options_, layer, s, h).sample;
      const auto fold = [&](double& mean, float value) {
        mean = means.known ? 0.9 * mean + 0.1 * static_cast<double>(value) : static_cast<double>(value);
      };
      fold(means.sink, sample.sink);
      fold(means.distant, sample.distant);
      fold(means.segment_entropy, sample.segment_entropy);
      fold(means.row_entropy, sample.row_entropy);
      means.known = true;
    }
    return means;
  }

  int32_t blocks_before(int32_t segment) const { return segment * options_.segment / options_.block; }

  // Of a kv_head of this weight; 0: not known.
  int32_t count_of(int32_t segment, double own) const {
    const int32_t all = blocks_before(segment);
    double share = density(segment);
    if (share >= 1) return all;
    const double pool = pool_kappas_[static_cast<size_t>(segment / 8)];
    // The text grows inside a pool, and the odds with it.
    const double grown = odds(share) / odds(pool_density(segment / 8 * 8));
    if (own > 0 && pool > 0) share = share_of(pool * grown * own);
    const int32_t least = std::max(1, options_.local_budget / options_.block);
    return std::min(all, std::max(static_cast<int32_t>(std::ceil(share * all)), least));
  }

  bool sampled(int32_t layer, int32_t segment) const {
    const bool whole = (segment + 1) * options_.segment <= trace_.tokens;
    if (layer + 1 == trace_.layers || segment < 2 || !whole) return false;
    const bool early = segment < 8 || segment * options_.segment < options_.threshold;
    int32_t every = options_.sample_every;
    while (segment >= 16 * every) every *= 2;
    return early || segment % every == 0;
  }

  double density(int32_t segment) const {
    const double before = segment * options_.segment;
    return before == 0 ? 1 : std::min(1.0, options_.density + options_.density_base / before);
  }
  double pool_density(int32_t known) const { return std::min(density(known), 0.9); }
  static double odds(double share) { return share / (1 - share); }

  // Up to and including `segment`; 0: not seen yet.
  double weight(int32_t layer, int32_t segment, size_t h) const {
    double log_weight = 0;
    bool seen = false;
    for (int32_t s = 0; s <= segment; ++s) {
      if (!sampled(layer, s)) continue;
      const AttentionSample& sample = trace_.at(options_, layer, s, h).sample;
      const double spread = static_cast<double>(sample.segment_entropy);
      const double distinct = spread - static_cast<double>(sample.row_entropy);
      const double fresh = options_.spread_power * spread + options_.distinct_power * std::max(0.0, distinct) +
                           options_.far_power * std::log(std::max(static_cast<double>(sample.far), 1e-6));
      const double memory = fresh > log_weight ? options_.open_memory : options_.sample_memory;
      log_weight = seen ? memory * log_weight + (1 - memory) * fresh : fresh;
      seen = true;
    }
    const double heads = (trace_.layers - 1) * trace_.kv_heads;
    return seen ? std::pow(std::exp(log_weight), heads / (heads + 2)) : 0;
  }

  std::vector<double> pool_weights(int32_t behind) const {
    std::vector<double> weights;
    for (int32_t layer = 0; layer < trace_.layers; ++layer)
      for (size_t h = 0; h < static_cast<size_t>(trace_.kv_heads); ++h)
        if (const double one = behind > 0 ? weight(layer, behind - 1, h) : 0; one > 0) weights.push_back(one);
    return weights;
  }

  double overshoot(int32_t known) const {
    const std::vector<double> before = known > 8 ? pool_weights(known - 8) : std::vector<double>();
    if (before.empty()) return 1;
    const double then = kappa(before, pool_density(known - 8));
    double sum = 0;
    int count = 0;
    for (int32_t segment = known - 8; segment < known; ++segment) {
      for (int32_t layer = 0; layer + 1 < trace_.layers; ++layer) {
        for (size_t h = 0; h < static_cast<size_t>(trace_.kv_heads); ++h) {
          sum += share_of(then * weight(layer, segment, h));
          ++count;
        }
      }
    }
    return sum / count / pool_density(known - 8);
  }

  static double share_of(double odds) { return odds / (1 + odds); }

  // By bisection.
  static double kappa(const std::vector<double>& weights, double density) {
    double low = 0;
    double high = 1e9 / *std::min_element(weights.begin(), weights.end());
    for (int i = 0; i < 400; ++i) {
      const double middle = (low + high) / 2;
      double sum = 0;
      for (const double one : weights) sum += share_of(middle * one);
      (sum < density * static_cast<double>(weights.size()) ? low : high) = middle;
    }
    return high;
  }

  const policy::PrefillOptions& options_;
  const PrefillTrace& trace_;
  std::vector<double> pool_kappas_;
};

}  // namespace ei::testing
