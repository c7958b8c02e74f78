// StreamingLLM reads and keeps the first and the latest, whatever is measured.
#include <gtest/gtest.h>

#include <algorithm>

#include "policy/registry.h"
#include "support/kv_run.h"
#include "support/prefill_run.h"

namespace ei::policy {
namespace {

TEST(Streaming, EverySegmentReadsTheFirstAndTheLatestBlocks) {
  PrefillOptions options = find_method("streaming")->prefill;
  options.segment = 64;
  options.threshold = 0;  // no segment reads everything
  options.last_dense = false;
  options.base_budget = 40;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const testing::PrefillTrace trace = testing::random_trace(options, seed);
    testing::PrefillRun run(options, trace);
    run.read_whole();
    for (int32_t layer = 0; layer < trace.layers; ++layer) {
      for (const SegmentRecord& record : run.records(layer)) {
        for (const HeadRecord& head : record.heads) {
          EXPECT_EQ(head.blocks, record.segment == 0 ? 0 : 5);
          EXPECT_TRUE(head.ranking.latest);
          EXPECT_EQ(head.ranking.sampling, Sampling::kNone);
        }
      }
    }
  }
}

TEST(Streaming, TheCacheKeepsTheFirstAndTheLatestSlots) {
  KvOptions options = find_kv_rule({"streaming"})->preset;
  options.keep_slots(50);
  options.window = 8;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const testing::KvTrace trace = testing::random_kv_trace(seed, 120);
    KeepList expected = {0, 1, 2, 3};
    for (int32_t slot = 74; slot < 120; ++slot) expected.push_back(slot);
    for (const auto& layer : testing::run_kv_method(options, trace))
      for (const KeepList& keep : layer) EXPECT_EQ(keep, expected);
  }
}

TEST(Streaming, NeedsNothingMeasured) {
  EXPECT_EQ(make_kv_method(find_kv_rule({"streaming"})->preset, {})->needs().queries, QuerySource::kNone);
  const auto method = make_prefill_method(find_method("streaming")->prefill, {});
  EXPECT_FALSE(method->reads_midrange());
  for (int32_t segment = 0; segment < 40; ++segment) EXPECT_FALSE(method->samples(segment));
}

}  // namespace
}  // namespace ei::policy
