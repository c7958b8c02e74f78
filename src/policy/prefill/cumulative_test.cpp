// Blocks until a share is covered, and any blocks.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "policy/registry.h"
#include "support/prefill_run.h"

namespace ei::policy {
namespace {

PrefillOptions small_prefill(const char* name) {
  PrefillOptions options = find_method(name)->prefill;
  options.segment = 64;
  options.block = 8;
  options.threshold = 0;  // no segment reads everything
  options.last_dense = false;
  options.base_budget = 40;
  return options;
}

TEST(Cumulative, ReadsAsManyBlocksAsCoverTheShareAndNeverLessThanItsBudget) {
  const PrefillOptions options = small_prefill("cumulative");
  EXPECT_EQ(find_method("cumulative")->prefill.cover, 0.95);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const testing::PrefillTrace trace = testing::random_trace(options, seed);
    testing::PrefillRun run(options, trace);
    run.read_whole();
    for (int32_t layer = 0; layer < trace.layers; ++layer) {
      for (const SegmentRecord& record : run.records(layer)) {
        for (size_t h = 0; h < record.heads.size(); ++h) {
          const int32_t wanted = std::max(5, trace.at(options, layer, record.segment, h).covering);
          EXPECT_EQ(record.heads[h].blocks, std::min(wanted, 8 * record.segment));
        }
      }
    }
  }
}

TEST(RandomPrefill, NamesAscendingBlocksBeforeTheSegmentAllEquallyOften) {
  const PrefillOptions options = small_prefill("random-prefill");
  const auto method = make_prefill_method(options, {.layers = 400, .kv_heads = 2});
  ASSERT_TRUE(method->chooses());
  std::vector<int> taken(24);
  for (int32_t layer = 0; layer < 400; ++layer) {
    std::vector<int32_t> blocks(5);
    method->choose({.layer = layer, .segment = 3}, 0, blocks);
    EXPECT_TRUE(std::is_sorted(blocks.begin(), blocks.end(), std::less_equal<>()));
    for (const int32_t block : blocks) ++taken.at(static_cast<size_t>(block));
    std::vector<int32_t> others(5);
    method->choose({.layer = layer, .segment = 3}, 1, others);
    EXPECT_EQ(others, blocks) << "whichever kv_head";
  }
  // 2000 of 24 blocks: 83 each, give or take four standard deviations of 9.
  for (const int count : taken) EXPECT_NEAR(count, 83, 36);
  std::vector<int32_t> all(24);
  method->choose({.layer = 0, .segment = 3}, 0, all);
  std::vector<int32_t> expected(24);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
}

}  // namespace
}  // namespace ei::policy
