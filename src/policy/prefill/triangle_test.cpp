// The first half of the layers reads everything, the second the sink and the latest.
#include <gtest/gtest.h>

#include "policy/registry.h"
#include "support/prefill_run.h"

namespace ei::policy {
namespace {

TEST(Triangle, DeepLayersReadTheFirstAndTheLatestBlocks) {
  PrefillOptions options = find_method("triangle")->prefill;
  EXPECT_EQ(options.base_budget, 8 + 512) << "the sink's block and the latest";
  options.segment = 64;
  options.threshold = 0;  // no segment reads everything
  options.last_dense = false;
  options.base_budget = 40;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const testing::PrefillTrace trace = testing::random_trace(options, seed);
    testing::PrefillRun run(options, trace);
    run.read_whole();
    for (int32_t layer = 0; layer < trace.layers; ++layer) {
      const bool deep = layer >= (trace.layers + 1) / 2;
      for (const SegmentRecord& record : run.records(layer)) {
        for (const HeadRecord& head : record.heads) {
          EXPECT_EQ(head.blocks, deep ? std::min(record.segment, 1) * 5 : record.segment * 8) << "layer " << layer;
          EXPECT_TRUE(head.ranking.latest);
        }
      }
    }
  }
}

}  // namespace
}  // namespace ei::policy
