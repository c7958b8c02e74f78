// What must hold for every method, whatever it decides: the registry is walked, so a new row is tested by being there.
#include "policy/registry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <vector>

#include "base/random.h"
#include "policy/block_select.h"

namespace ei::policy {
namespace {

// A random prompt as the profiler would see it, in a shape small enough to plan a hundred times.
struct Prompt {
  int32_t kv_heads = 0;
  int32_t segments = 0;
  int64_t tokens = 0;
  int64_t stride = 0;
  std::vector<float> entropy;
  std::vector<float> values;
};

PrefillOptions small(PrefillOptions options) {
  options.segment = 32;
  options.block = 8;
  options.threshold = 64;
  options.base_budget = 64;
  return options;
}

Prompt random_prompt(const PrefillOptions& options, uint64_t seed) {
  Random random(seed);
  Prompt prompt;
  prompt.kv_heads = static_cast<int32_t>(random.between(1, 3));
  prompt.tokens = random.between(1, 40 * options.segment);
  prompt.segments = static_cast<int32_t>((prompt.tokens + options.segment - 1) / options.segment);
  prompt.stride = int64_t{prompt.segments} * options.grid().blocks_per_segment();
  const size_t lists = static_cast<size_t>(prompt.kv_heads) * static_cast<size_t>(prompt.segments);
  for (size_t i = 0; i < lists; ++i)
    prompt.entropy.push_back(random.below(3) == 0 ? 0.0f : std::exp(3.0f * random.normal()));
  for (size_t i = 0; i < lists * static_cast<size_t>(prompt.stride); ++i)
    prompt.values.push_back(static_cast<float>(random.between(0, 30)));  // with ties
  return prompt;
}

// The plan of the segments [begin, end), the profile cut out of the whole prompt.
BlockPlan plan_part(const PrefillOptions& options, const Prompt& prompt, EntropyBudget& budget, int32_t begin,
                    int32_t end) {
  std::vector<float> entropy;
  std::vector<float> values;
  for (int64_t row = 0; row < int64_t{prompt.kv_heads} * prompt.segments; ++row) {
    if (row % prompt.segments < begin || row % prompt.segments >= end) continue;
    entropy.push_back(prompt.entropy[static_cast<size_t>(row)]);
    const auto first = prompt.values.begin() + row * prompt.stride;
    values.insert(values.end(), first, first + prompt.stride);
  }
  ChunkProfile profile{.kv_heads = prompt.kv_heads, .first_segment = begin, .num_segments = end - begin};
  profile.prompt_tokens = prompt.tokens;
  profile.entropy = entropy;
  profile.values = values.data();
  profile.stride = prompt.stride;
  BlockPlan plan;
  plan_chunk(options, profile, budget, plan);
  return plan;
}

BlockPlan plan_whole(const PrefillOptions& options, const Prompt& prompt) {
  EntropyBudget budget(options, prompt.kv_heads);
  return plan_part(options, prompt, budget, 0, prompt.segments);
}

std::vector<int32_t> list_of(const BlockPlan& plan, int32_t kv_head, int32_t segment) {
  const size_t list = static_cast<size_t>(kv_head * plan.num_segments + segment - plan.first_segment);
  return {plan.blocks.begin() + plan.offsets[list], plan.blocks.begin() + plan.offsets[list + 1]};
}

template <typename Check>
void for_every_method_and_prompt(Check check) {
  for (const Method& method : methods()) {
    for (uint64_t seed = 1; seed <= 25; ++seed) {
      SCOPED_TRACE(testing::Message() << method.name << ", seed " << seed);
      const PrefillOptions options = small(method.prefill);
      check(options, random_prompt(options, seed), seed);
    }
  }
}

TEST(Methods, HaveUniqueNamesSummariesAndValidDefaults) {
  std::set<std::string_view> names;
  for (const Method& method : methods()) {
    SCOPED_TRACE(method.name);
    EXPECT_TRUE(names.insert(method.name).second);
    EXPECT_FALSE(method.summary.empty());
    EXPECT_TRUE(validate(method.prefill).ok());
    EXPECT_TRUE(validate(method.kv).ok());
    EXPECT_EQ(find_method(method.name), &method);
  }
  EXPECT_NE(find_method("full"), nullptr);
  EXPECT_NE(find_method("entropyinfer"), nullptr);
  EXPECT_NE(find_method("entropyinfer-released"), nullptr);
  EXPECT_EQ(find_method("entropy"), nullptr);
}

TEST(Methods, OfOthersHaveThePublishedSettings) {
  const PrefillOptions& criti = find_method("critiprefill")->prefill;
  EXPECT_EQ(criti.rule, PrefillRule::kFixed);
  EXPECT_EQ(criti.segment, 512);
  EXPECT_EQ(criti.block, 32);
  EXPECT_EQ(criti.threshold, 4096);
  EXPECT_EQ(criti.base_budget, 2048);
  EXPECT_EQ(criti.layer_skip, 1);
  EXPECT_TRUE(criti.layer_fusion);
  EXPECT_TRUE(ranks_on_probabilities(criti));
  EXPECT_EQ(find_method("critiprefill")->kv.rule, KvRule::kKeepAll);
  for (const char* name : {"snapkv", "adakv"}) {
    SCOPED_TRACE(name);
    EXPECT_EQ(find_method(name)->prefill.rule, PrefillRule::kDense);
    const KvOptions& kv = find_method(name)->kv;
    EXPECT_EQ(kv.rule, KvRule::kLatent);
    EXPECT_EQ(kv.budget, 1024);
    EXPECT_EQ(kv.gap, -1);
    EXPECT_EQ(kv.window, 32);
    EXPECT_EQ(kv.repeat, 0);
    EXPECT_EQ(kv.pooling, Pooling::kMax);
    EXPECT_EQ(kv.kernel, 7);
    EXPECT_EQ(kv.aggregate, GroupAggregate::kMean);
    EXPECT_EQ(kv.share == KvShare::kAdaptive, std::string_view(name) == "adakv");
  }
}

TEST(Methods, GiveFewGlobalLayersTheBudgetOfAll) {
  const PrefillOptions preset = find_method("entropyinfer")->prefill;
  EXPECT_EQ(for_model(preset, 16, 16).base_budget, 1024);
  EXPECT_EQ(for_model(preset, 18, 3).base_budget, 6144);
  EXPECT_EQ(for_model(preset, 26, 4).base_budget, 6656);
  EXPECT_EQ(for_model(preset, 34, 5).base_budget, 6960);  // whole blocks
  EXPECT_EQ(for_model(preset, 4, 0).base_budget, 4096);   // none is sparse, whatever it says
  PrefillOptions own = preset;
  own.base_budget = 512;
  EXPECT_EQ(for_model(own, 18, 3).base_budget, 512);
  own = preset;
  own.min_budget = 2048;
  EXPECT_EQ(for_model(own, 16, 16).base_budget, 2048);
  EXPECT_EQ(for_model(find_method("entropyinfer-released")->prefill, 18, 3).base_budget, 2048);
}

TEST(Methods, ReadNoBlockFromTheFutureAndStayInBudget) {
  for_every_method_and_prompt([](const PrefillOptions& options, const Prompt& prompt, uint64_t) {
    const BlockPlan plan = plan_whole(options, prompt);
    const double most = options.max_factor * options.base_budget / options.block;
    ASSERT_EQ(plan.dense.size(), static_cast<size_t>(prompt.segments));
    for (int32_t head = 0; head < prompt.kv_heads; ++head) {
      for (int32_t segment = 0; segment < prompt.segments; ++segment) {
        const std::vector<int32_t> list = list_of(plan, head, segment);
        const int32_t visible = segment * options.grid().blocks_per_segment();
        const bool dense = plan.dense[static_cast<size_t>(segment)] != 0;
        EXPECT_EQ(dense, is_dense_segment(options, segment, prompt.tokens));
        if (dense) {
          EXPECT_TRUE(list.empty());
          continue;
        }
        EXPECT_GE(static_cast<int32_t>(list.size()), std::min(visible, options.base_budget / options.block));
        EXPECT_LE(static_cast<double>(list.size()), most);
        EXPECT_TRUE(std::adjacent_find(list.begin(), list.end(), std::greater_equal<>()) == list.end());
        EXPECT_TRUE(list.empty() || (list.front() >= 0 && list.back() < visible));
      }
    }
  });
}

TEST(Methods, DecideTheSameTwice) {
  for_every_method_and_prompt([](const PrefillOptions& options, const Prompt& prompt, uint64_t) {
    EXPECT_EQ(plan_whole(options, prompt).blocks, plan_whole(options, prompt).blocks);
  });
}

TEST(Methods, PlanAPromptInChunksAsInOne) {
  for_every_method_and_prompt([](PrefillOptions options, const Prompt& prompt, uint64_t seed) {
    options.rigid_test = RigidTest::kCausal;  // the whole-trace test is the one that depends on the cut
    const BlockPlan whole = plan_whole(options, prompt);
    Random random(seed + 1000);
    EntropyBudget budget(options, prompt.kv_heads);
    for (int32_t begin = 0; begin < prompt.segments;) {
      const int32_t end = std::min(prompt.segments, begin + static_cast<int32_t>(random.between(1, 7)));
      const BlockPlan part = plan_part(options, prompt, budget, begin, end);
      for (int32_t head = 0; head < prompt.kv_heads; ++head)
        for (int32_t segment = begin; segment < end; ++segment)
          EXPECT_EQ(list_of(part, head, segment), list_of(whole, head, segment)) << "segment " << segment;
      begin = end;
    }
  });
}

TEST(Methods, ReadEverythingWhenTheBudgetCoversIt) {
  for_every_method_and_prompt([](PrefillOptions options, const Prompt& prompt, uint64_t) {
    options.base_budget = 1 << 20;
    const BlockPlan plan = plan_whole(options, prompt);
    for (int32_t segment = 0; segment < prompt.segments; ++segment) {
      if (plan.dense[static_cast<size_t>(segment)] != 0) continue;
      EXPECT_EQ(list_of(plan, 0, segment).size(), static_cast<size_t>(segment * options.grid().blocks_per_segment()));
    }
  });
}

TEST(Methods, KeepTheWindowAndNoMoreThanTheBudget) {
  for (const Method& method : methods()) {
    for (uint64_t seed = 1; seed <= 25; ++seed) {
      SCOPED_TRACE(testing::Message() << method.name << ", seed " << seed);
      Random random(seed);
      const int64_t length = random.between(1, 3000);
      const int64_t slots = std::max<int64_t>(0, length - method.kv.window);
      const int32_t group = static_cast<int32_t>(random.between(1, 4));
      std::vector<float> rows(static_cast<size_t>(group * slots));
      for (float& score : rows) score = static_cast<float>(random.between(0, 50));
      const GroupScores scores{.scores = rows.data(), .stride = slots, .group = group, .slots = slots};
      const KeepList keep = keep_list(method.kv, scores, length);
      const bool all = method.kv.rule == KvRule::kKeepAll || length <= method.kv.budget;
      EXPECT_EQ(static_cast<int64_t>(keep.size()), all ? length : method.kv.budget);
      EXPECT_TRUE(std::adjacent_find(keep.begin(), keep.end(), std::greater_equal<>()) == keep.end());
      for (int64_t slot = slots; slot < length; ++slot)
        EXPECT_EQ(keep[keep.size() - static_cast<size_t>(length - slot)], slot);
      EXPECT_EQ(keep, keep_list(method.kv, scores, length));
    }
  }
}

}  // namespace
}  // namespace ei::policy
