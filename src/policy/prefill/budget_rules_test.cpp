// The budget rules fixed, level, growth and habit against plain references written from their formulas, over random
// traces: counts of every layer, segment and kv_head.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "policy/registry.h"
#include "support/prefill_run.h"

namespace ei::policy {
namespace {

using testing::PrefillRun;
using testing::PrefillTrace;
using testing::random_trace;

// Where a kv_head stands when its count is asked for.
struct Point {
  const PrefillOptions& options;
  const PrefillTrace& trace;
  int32_t layer;
  int32_t segment;
  size_t h;

  int64_t before() const { return int64_t{segment} * options.segment; }
  float entropy(int32_t at) const { return trace.at(options, layer, at, h).midrange_entropy; }
  // Of layers below layer_skip.
  int64_t early() const { return layer < options.layer_skip ? before() / options.early_share : 0; }
  int32_t blocks(double tokens) const { return static_cast<int32_t>(std::floor(tokens / options.block)); }
};

// What the samples before a segment say of a kv_head (types as in docs/glossary.md): plain means over the beginning,
// then running ones.
HeadType type_before(const Point& at) {
  double sink = 0;
  double distant = 0;
  int samples = 0;
  for (int32_t s = 2; s < at.segment; ++s) {
    const bool early = s < 8 || s * at.options.segment < at.options.threshold;
    const bool whole = (s + 1) * at.options.segment <= at.trace.tokens;
    if ((!early && s % 16 != 0) || at.layer + 1 == at.trace.layers || !whole) continue;
    const AttentionSample& sample = at.trace.at(at.options, at.layer, s, at.h).sample;
    const double keep = early || samples == 0 ? samples / (samples + 1.0) : 0.9;
    sink = keep * sink + (1 - keep) * static_cast<double>(sample.sink);
    distant = keep * distant + (1 - keep) * static_cast<double>(sample.distant);
    ++samples;
  }
  if (samples == 0) return HeadType::kUnknown;
  if (distant < 0.015 * (1 - sink) || distant < 0.003) return HeadType::kLocal;
  return sink > 4 * (1 - sink - distant) ? HeadType::kSink : HeadType::kDiffuse;
}

int32_t fixed_count(const Point& at) {
  const bool local = type_before(at) == HeadType::kLocal && at.before() > at.options.base_budget;
  if (local) return at.blocks(std::min(at.options.local_budget, at.options.base_budget));
  return at.blocks(static_cast<double>(std::max<int64_t>(at.options.base_budget, at.early())));
}

int32_t level_count(const Point& at) {
  double mean = 0;
  for (size_t h = 0; h < static_cast<size_t>(at.trace.kv_heads); ++h)
    mean += static_cast<double>(at.trace.at(at.options, at.layer, at.segment, h).midrange_entropy) / at.trace.kv_heads;
  const double base = at.options.base_budget;
  const double least = at.options.block;
  const double wanted = base * static_cast<double>(at.entropy(at.segment)) / mean;
  const double budget = mean > 0 ? std::clamp(wanted, least, at.options.max_factor * base) : base;
  return at.blocks(std::max(budget, static_cast<double>(at.early())));
}

// b_s, by recursion to the first segment. In float32, as published code has it: a saturated step is a whole number of
// blocks.
float growth_budget(const Point& at, int32_t segment) {
  const auto base = static_cast<float>(at.options.base_budget);
  if (segment <= 1) return base;
  bool rigid = true;
  for (int32_t s = 1; s <= segment; ++s) rigid = rigid && !(at.entropy(s) >= static_cast<float>(at.options.e_t));
  const float before = growth_budget(at, segment - 1);
  if (rigid) return before;
  const float last = at.entropy(segment - 1);
  const float growth = (at.entropy(segment) - last) / (last + 1e-9f);
  const auto delta = static_cast<float>(at.options.delta_t);
  const float ratio = std::clamp(growth, 0.0f, static_cast<float>(1 + at.options.delta_t));
  const auto step = static_cast<float>(at.options.alpha * at.options.base_budget);
  return std::clamp(before + step * (ratio - delta), base, static_cast<float>(at.options.max_factor) * base);
}

int32_t growth_count(const Point& at) {
  const int32_t count = std::min(at.blocks(static_cast<double>(growth_budget(at, at.segment))),
                                 static_cast<int32_t>(at.before() / at.options.block));
  return std::max(count, static_cast<int32_t>(at.early() / at.options.block));
}

// The growth rule's count, and at least a share of the text; all texts here are shorter than 32768 tokens.
int32_t habit_count(const Point& at) {
  const auto all = static_cast<int32_t>(at.before() / at.options.block);
  const int32_t count = std::min(at.blocks(static_cast<double>(growth_budget(at, at.segment))), all);
  if (count >= all) return count;
  const HeadType type = type_before(at);
  if (type == HeadType::kLocal) return std::min(count, std::max(1, at.options.local_budget / at.options.block));
  int64_t share = at.early();
  if (at.layer >= at.options.layer_skip)
    share = at.before() / (type == HeadType::kSink ? at.options.sink_share : at.options.diffuse_share);
  return std::max(count, static_cast<int32_t>(share / at.options.block));
}

void expect_counts(PrefillRule rule, const std::function<int32_t(const Point&)>& plain) {
  PrefillOptions options = find_method("entropyinfer")->prefill;
  options.rule = rule;
  options.segment = 32;
  options.block = 8;
  options.threshold = 64;
  options.base_budget = 64;
  options.local_budget = 16;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    const PrefillTrace trace = random_trace(options, seed);
    PrefillRun run(options, trace);
    run.read_whole();
    for (int32_t layer = 0; layer < trace.layers; ++layer) {
      for (const SegmentRecord& record : run.records(layer)) {
        if (record.dense) continue;
        for (size_t h = 0; h < record.heads.size(); ++h) {
          const Point at{options, trace, layer, record.segment, h};
          const auto all = static_cast<int32_t>(at.before() / options.block);
          EXPECT_EQ(record.heads[h].blocks, std::min(plain(at), all))
              << "layer " << layer << " segment " << record.segment << " kv_head " << h;
        }
      }
    }
  }
}

TEST(BudgetRules, FixedCountsAsThePlainReferenceDoes) { expect_counts(PrefillRule::kFixed, fixed_count); }
TEST(BudgetRules, LevelCountsAsThePlainReferenceDoes) { expect_counts(PrefillRule::kLevel, level_count); }
TEST(BudgetRules, GrowthCountsAsThePlainReferenceDoes) { expect_counts(PrefillRule::kGrowth, growth_count); }
TEST(BudgetRules, HabitCountsAsThePlainReferenceDoes) { expect_counts(PrefillRule::kHabit, habit_count); }

}  // namespace
}  // namespace ei::policy
