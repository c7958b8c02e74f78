// The default method written once more, slow and obvious, from the words of docs/design.md ("How a block gets chosen")
// and docs/options.md: the counts and rankings that it must come to over a made-up trace.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "plan/block_ranking.h"
#include "policy/prefill/options.h"
#include "support/prefill_run.h"

namespace ei::testing {

// Every option that the method reads, drawn anew, of what a small trace can show; but for shuffle, whose draws have no
// other way to be written.
inline constexpr uint64_t kEntropyOptions = 60;
inline policy::PrefillOptions random_entropy_options(uint64_t seed) {
  Random random(seed);
  const auto one_of = [&](auto first, auto... others) {
    const decltype(first) values[] = {first, others...};
    return values[random.below(1 + static_cast<int64_t>(sizeof...(others)))];
  };
  policy::PrefillOptions options;
  options.rule = policy::PrefillRule::kEntropy;
  options.select = policy::BlockRank::kAdaptive;
  options.block = one_of(4, 8, 16);
  options.segment = options.block * one_of(4, 8);
  options.threshold = options.segment * one_of(0, 2, 9);
  options.last_dense = one_of(0, 1) != 0;
  options.density = one_of(0.02, 0.1, 0.3, 1.0);
  options.density_base = one_of(0, 100, 384);
  options.base_budget = one_of(0, 0, 3) * options.segment;
  options.local_budget = one_of(0, 16, 128);
  options.spread_power = one_of(0.0, 0.75, 2.0);
  options.distinct_power = one_of(0.0, 1.5, 3.0);
  options.far_power = one_of(0.0, 1.0, 2.0);
  options.sample_every = one_of(1, 2, 3, 4);
  options.sample_memory = one_of(0.0, 0.5, 0.9);
  options.open_memory = one_of(0.0, 0.5, 0.9);
  options.few_places = one_of(0.0, 2.0, 5.0, 5.0, 20.0);
  options.rated_per_read = one_of(0.0, 0.5, 1.5, 2.0, 4.0);
  options.whole_layer = one_of(-1, -1, 0, 1);
  options.whole_head = one_of(-1, 0);
  using policy::RankQueries;
  options.rank_queries = one_of(RankQueries::kAuto, RankQueries::kAuto, RankQueries::kAuto, RankQueries::kGroup,
                                RankQueries::kHeads, RankQueries::kAll);
  return options;
}

// How a kv_head ranks, and the rule that says so.
struct PlainRanking {
  std::string_view rule;
  bool latest = true;
  GroupQuery queries = GroupQuery::kEach;
  int64_t rows = 0;
  int64_t most_rows = 0;  // where a part of them lies on the edge of a row
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
    return reads_whole(layer, h) ? blocks_before(segment) : count_of(segment, weight(layer, segment, h));
  }

  // "What type has the head?" and the table of who rates.
  PlainRanking ranking(int32_t layer, int32_t segment, size_t h) const {
    if (policy::is_dense_segment(options_, segment, trace_.tokens)) return {.rule = "dense"};
    const int64_t begin = int64_t{segment} * options_.segment;
    const int64_t rows = std::min<int64_t>(options_.segment, trace_.tokens - begin);
    const double all = blocks_before(segment);
    // Who rates follows from what it costs, unless an option says who.
    const double every_row = trace_.per_key * static_cast<double>(begin) / trace_.products;
    // A quarter of the rows about half of the keys is an eighth of everything.
    const double some_rows = every_row / 8;
    policy::RankQueries who = options_.rank_queries;
    const bool by_places = who == policy::RankQueries::kAuto && options_.few_places > 0;
    if (who == policy::RankQueries::kAuto)
      who = some_rows <= 0.15 ? policy::RankQueries::kHeads : policy::RankQueries::kGroup;
    if (options_.rank_queries == policy::RankQueries::kAuto && every_row <= 0.3) who = policy::RankQueries::kAll;
    const bool each = who != policy::RankQueries::kGroup;

    PlainRanking everything{.rule = "unknown", .latest = false, .rows = rows, .most_rows = rows, .blocks = all};
    if (!each && !by_places) everything.queries = GroupQuery::kMean;  // by its type, as all
    const Means means = means_before(layer, segment, h);
    if (!means.known) return everything;

    constexpr double kLocal = 0.003;
    constexpr double kLocalOfTheRest = 0.015;
    constexpr double kSinkOverOwn = 4;
    const double own = 1 - means.sink - means.distant;
    if (means.distant < kLocal || means.distant < kLocalOfTheRest * (1 - means.sink)) return {.rule = "local"};
    PlainRanking some = everything;
    some.rule = "every row";
    if (who == policy::RankQueries::kAll) return some;

    const double places = std::exp(means.segment_entropy - means.row_entropy);
    if (by_places && places < options_.few_places) {
      some.rule = "few places";
      some.queries = GroupQuery::kEach;
      const double part = std::max(std::pow(places / options_.few_places, 2), 1.0 / 16);
      constexpr double kEdge = 1e-4;
      some.rows = static_cast<int64_t>(std::ceil(part * static_cast<double>(rows) - kEdge));
      some.most_rows = static_cast<int64_t>(std::ceil(part * static_cast<double>(rows) + kEdge));
      rate_some_blocks(layer, segment, h, part, some);
      return some;
    }
    if (means.sink > kSinkOverOwn * own) {
      some.rule = each ? "sink head" : "sink group";
      some.queries = each ? GroupQuery::kEach : GroupQuery::kLeastLocal;
      some.rows = some.most_rows = std::max<int64_t>(1, rows / 2);
      return some;
    }
    const bool late = 4 * layer >= 3 * trace_.layers;
    some.rule = late ? (each ? "late head" : "late group") : (each ? "diffuse head" : "diffuse group");
    some.queries = each ? GroupQuery::kEach : GroupQuery::kMean;
    some.rows = some.most_rows = std::max<int64_t>(1, rows / (late ? 8 : 4));
    rate_some_blocks(layer, segment, h, 1, some);
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

  // So many pairs of row and block for each that the head reads by what it had shown before, where only a part of the
  // rows rates; never fewer blocks than it reads, nor than the threshold has.
  void rate_some_blocks(int32_t layer, int32_t segment, size_t h, double part, PlainRanking& some) const {
    if (options_.rated_per_read == 0 || reads_whole(layer, h)) return;
    const double read = count_of(segment, weight(layer, segment - 1, h));
    const double least = static_cast<double>(options_.threshold) / options_.block;
    some.one_more = std::max(1.0, options_.rated_per_read) / part;
    some.blocks = std::min<double>(blocks_before(segment), std::max(least, some.one_more * read));
  }

  // A new sample counts for what sample_memory leaves, a tenth.
  Means means_before(int32_t layer, int32_t segment, size_t h) const {
    Means means;
    for (int32_t s = 0; s < segment; ++s) {
      if (!sampled(layer, s)) continue;
      const AttentionSample& sample = trace_.at(options_, layer, s, h).sample;
      const auto fold = [&](double& mean, float value) {
        const double memory = means.known ? options_.sample_memory : 0;
        mean = memory * mean + (1 - memory) * static_cast<double>(value);
      };
      fold(means.sink, sample.sink);
      fold(means.distant, sample.distant);
      fold(means.segment_entropy, sample.segment_entropy);
      fold(means.row_entropy, sample.row_entropy);
      means.known = true;
    }
    return means;
  }

  bool reads_whole(int32_t layer, size_t h) const {
    const bool head = options_.whole_head == -1 || static_cast<size_t>(options_.whole_head) == h;
    return options_.whole_layer == layer && head;
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
    if (before == 0) return 1;
    const double tokens =
        options_.base_budget > 0 ? options_.base_budget : options_.density * before + options_.density_base;
    return std::min(1.0, tokens / before);
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
