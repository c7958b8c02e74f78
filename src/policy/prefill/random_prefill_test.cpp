// Any blocks, against what its words promise of them (support/plain_random_prefill.h).
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "base/random.h"
#include "policy/prefill/walk.h"
#include "policy/registry.h"
#include "support/plain_random_prefill.h"

namespace ei::policy {
namespace {

using testing::Chance;

struct RandomPrompt {
  int32_t layers = 1;
  int32_t kv_heads = 1;
  int64_t tokens = 0;
};

// What a walk comes to, in chunks of about `batch` tokens: [layers].
std::vector<LayerRecords> read_any_blocks(const PrefillOptions& options, const RandomPrompt& prompt, int64_t batch) {
  const PrefillShape shape{.layers = prompt.layers, .kv_heads = prompt.kv_heads};
  PrefillWalk walk(make_prefill_method(options, shape), shape);
  walk.begin_prompt(prompt.tokens);
  walk.keep_blocks(true);
  for (int64_t first = 0; first < prompt.tokens;) {
    const int64_t end = walk.chunk_end(first, batch);
    walk.begin_chunk(first, end - first);
    for (int32_t layer = 0; layer < prompt.layers; ++layer) {
      walk.begin_layer(layer, end - first);
      walk.decide(layer);
    }
    walk.finish_chunk();
    first = end;
  }
  std::vector<LayerRecords> records;
  records.reserve(static_cast<size_t>(prompt.layers));
  for (int32_t layer = 0; layer < prompt.layers; ++layer) records.push_back(walk.records(layer));
  return records;
}

std::vector<std::vector<int32_t>> lists_of(const std::vector<LayerRecords>& layers) {
  std::vector<std::vector<int32_t>> lists;
  for (const LayerRecords& layer : layers)
    for (const SegmentRecord& record : layer)
      for (const HeadRecord& head : record.heads) lists.push_back(head.chosen);
  return lists;
}

PrefillOptions any_blocks(int32_t segment, int32_t base_budget) {
  PrefillOptions options = find_method("random-prefill")->prefill;
  options.segment = segment;
  options.block = 8;
  options.threshold = 2 * segment;
  options.base_budget = base_budget;
  return options;
}

TEST(RandomPrefill, DrawsItsBudgetOfEarlierBlocksInEverySegmentAndTheSameAgain) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    PrefillOptions options = any_blocks(static_cast<int32_t>(8 * random.between(1, 8)), 0);
    options.base_budget = static_cast<int32_t>(random.between(8, 600));
    options.threshold = static_cast<int32_t>(random.below(200));
    options.last_dense = random.below(2) == 0;
    const RandomPrompt prompt{.layers = static_cast<int32_t>(random.between(1, 4)),
                              .kv_heads = static_cast<int32_t>(random.between(1, 3)),
                              .tokens = random.between(1, 40 * options.segment)};
    const std::vector<LayerRecords> whole = read_any_blocks(options, prompt, prompt.tokens);
    for (int32_t layer = 0; layer < prompt.layers; ++layer) {
      SCOPED_TRACE(::testing::Message() << "layer " << layer);
      testing::expect_random_lists(options, prompt.tokens, whole[static_cast<size_t>(layer)]);
    }
    EXPECT_EQ(lists_of(whole), lists_of(read_any_blocks(options, prompt, prompt.tokens))) << "reproducible";
    EXPECT_EQ(lists_of(whole), lists_of(read_any_blocks(options, prompt, options.segment))) << "however it is cut";
  }
}

TEST(RandomPrefill, TakesEveryBlockAndEveryPairEquallyOftenAndAnewInEverySegmentAndLayer) {
  const PrefillOptions options = any_blocks(64, 96);
  const RandomPrompt prompt{.layers = 300, .kv_heads = 1, .tokens = 20 * 64};
  const std::vector<LayerRecords> records = read_any_blocks(options, prompt, prompt.tokens);
  std::vector<Chance> blocks(19 * 8);
  Chance neighbours;
  Chance with_the_layer_before;
  Chance with_the_segment_before;
  for (size_t layer = 0; layer < records.size(); ++layer) {
    for (size_t s = 0; s < records[layer].size(); ++s) {
      if (records[layer][s].dense) continue;
      const std::vector<int32_t>& drawn = records[layer][s].heads[0].chosen;
      const int32_t earlier = 8 * records[layer][s].segment;
      const double share = static_cast<double>(drawn.size()) / earlier;
      const std::set<int32_t> taken(drawn.begin(), drawn.end());
      for (int32_t block = 0; block < earlier; ++block)
        blocks[static_cast<size_t>(block)].add(taken.contains(block), share);
      const double pair = share * static_cast<double>(drawn.size() - 1) / (earlier - 1);
      for (int32_t block = 0; block + 1 < earlier; block += 2)
        neighbours.add(taken.contains(block) && taken.contains(block + 1), pair);
      if (layer > 0) testing::add_common(with_the_layer_before, drawn, records[layer - 1][s].heads[0].chosen, earlier);
      if (!records[layer][s - 1].dense)
        testing::add_common(with_the_segment_before, drawn, records[layer][s - 1].heads[0].chosen, earlier);
    }
  }
  constexpr double kMostDeviations = 4;
  for (size_t block = 0; block < blocks.size(); ++block)
    EXPECT_LT(std::abs(blocks[block].deviations()), kMostDeviations) << "block " << block;
  EXPECT_LT(std::abs(neighbours.deviations()), kMostDeviations);
  EXPECT_LT(std::abs(with_the_layer_before.deviations()), kMostDeviations);
  EXPECT_LT(std::abs(with_the_segment_before.deviations()), kMostDeviations);
}

TEST(RandomPrefill, NamesAllBlocksWhereItsBudgetHasThem) {
  const auto method = make_prefill_method(any_blocks(64, 192), {.layers = 1, .kv_heads = 2});
  ASSERT_TRUE(method->chooses());
  std::vector<int32_t> all(24);
  method->choose({.layer = 0, .segment = 3}, 0, all);
  std::vector<int32_t> expected(24);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
}

}  // namespace
}  // namespace ei::policy
