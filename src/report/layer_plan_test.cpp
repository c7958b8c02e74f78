#include "report/layer_plan.h"

#include <gtest/gtest.h>

namespace ei::report {
namespace {

// Two kv_heads over four segments.
sparse::LayerTrace trace_of(std::vector<float> entropy) {
  sparse::LayerTrace trace;
  trace.segments = {0, 1, 2, 3};
  trace.entropy = std::move(entropy);
  trace.rigid = {0, 1, 0, 1, 0, 1, 0, 1};
  return trace;
}

TEST(RigidBySegment, EndsAtTheFirstEntropyThatReachesTheThreshold) {
  const policy::PrefillOptions options{.rule = policy::PrefillRule::kEntropy, .e_t = 0.5};
  // E_0 is read nowhere; the second head comes back under the threshold and stays dynamic.
  EXPECT_EQ(rigid_by_segment(options, trace_of({9, 9, 0.1f, 0.5f, 0.7f, 0.2f, 0, 0})),
            (std::vector<uint8_t>{1, 1, 1, 0, 0, 0, 0, 0}));
}

TEST(RigidBySegment, IsWhatTheTraceSaysWhereThePlanLooksAhead) {
  const sparse::LayerTrace trace = trace_of({9, 9, 9, 9, 9, 9, 9, 9});
  policy::PrefillOptions options{.rule = policy::PrefillRule::kEntropy, .rigid_test = policy::RigidTest::kWholeTrace};
  EXPECT_EQ(rigid_by_segment(options, trace), trace.rigid);
  options = {.rule = policy::PrefillRule::kFixed};
  EXPECT_EQ(rigid_by_segment(options, trace), trace.rigid);
}

}  // namespace
}  // namespace ei::report
