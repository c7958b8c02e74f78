// Blocks until a share is covered.
#include <gtest/gtest.h>

#include <algorithm>

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

}  // namespace
}  // namespace ei::policy
