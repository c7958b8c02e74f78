// How the default method ranks, against a plain reference written from its description, over random traces and options.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "support/plain_entropy.h"
#include "support/prefill_run.h"

namespace ei::policy {
namespace {

using testing::PlainEntropy;
using testing::PrefillRun;
using testing::PrefillTrace;
using testing::random_entropy_options;

// What a head does: any type, from one place to 25.
struct Habit {
  explicit Habit(Random& random)
      : sink(random.below(2) == 0 ? 0.98 * random.uniform() : 0.75 + 0.2 * random.uniform()),
        distant(std::exp(-6 * random.uniform())),
        spread(3.5 + 2 * random.uniform()),
        places(3.2 * random.uniform()) {}
  double sink;
  double distant;
  double spread;
  double places;
};

// Half of the heads stay about what they are, the others become something else on the way. Where rating goes over to
// fewer rows and then to one query for a group differs from trace to trace.
PrefillTrace trace_of_types(const PrefillOptions& options, uint64_t seed) {
  Random random(seed);
  PrefillTrace trace;
  trace.layers = 8;
  trace.kv_heads = 3;
  trace.tokens = random.between(32 * options.segment, 48 * options.segment);
  trace.products = 1e6;
  trace.per_key = 0.3 * trace.products / (options.segment * (3 + 7 * random.uniform()));
  const int32_t segments = trace.segments(options);
  trace.measures.resize(static_cast<size_t>(trace.layers * segments * trace.kv_heads));
  for (int32_t layer = 0; layer < trace.layers; ++layer) {
    for (int32_t h = 0; h < trace.kv_heads; ++h) {
      const Habit first(random);
      const Habit then = random.below(2) == 0 ? first : Habit(random);
      const int64_t turn = random.between(4, segments);
      for (int32_t segment = 0; segment < segments; ++segment) {
        const Habit& now = segment < turn ? first : then;
        const auto near = [&] { return std::exp(0.1 * static_cast<double>(random.normal())); };
        const double far = (1 - now.sink) * std::min(1.0, now.distant * near());
        AttentionSample& sample =
            trace.measures[static_cast<size_t>((layer * segments + segment) * trace.kv_heads + h)].sample;
        sample.sink = static_cast<float>(now.sink);
        sample.far = sample.distant = static_cast<float>(far);
        sample.segment_entropy = static_cast<float>(now.spread * near());
        sample.row_entropy =
            static_cast<float>(std::max(0.0, static_cast<double>(sample.segment_entropy) - now.places));
      }
    }
  }
  return trace;
}

TEST(EntropyInferRanking, IsThatOfThePlainReference) {
  std::map<std::string_view, int> seen;
  for (uint64_t seed = 1; seed <= testing::kEntropyOptions; ++seed) {
    const PrefillOptions options = random_entropy_options(seed);
    const PrefillTrace trace = trace_of_types(options, seed);
    PrefillRun run(options, trace);
    run.read_whole();
    const PlainEntropy reference(options, trace);
    for (int32_t layer = 0; layer < trace.layers; ++layer) {
      for (const SegmentRecord& record : run.records(layer)) {
        for (size_t h = 0; h < record.heads.size(); ++h) {
          const testing::PlainRanking expected = reference.ranking(layer, record.segment, h);
          ++seen[expected.rule];
          SCOPED_TRACE(::testing::Message() << expected.rule << ", seed " << seed << ", layer " << layer << ", segment "
                                            << record.segment << ", kv_head " << h);
          const BlockRanking& ranking = record.heads[h].ranking;
          ASSERT_EQ(ranking.latest, expected.latest);
          if (expected.latest) continue;
          const int64_t begin = int64_t{record.segment} * options.segment;
          const int64_t rows = std::min<int64_t>(options.segment, trace.tokens - begin);
          const auto all = static_cast<int32_t>(begin / options.block);
          ASSERT_EQ(ranking.queries, expected.queries);
          ASSERT_GE(ranking.rows == 0 ? rows : ranking.rows, expected.rows);
          ASSERT_LE(ranking.rows == 0 ? rows : ranking.rows, expected.most_rows);
          // A share may lie on the edge of a block.
          ASSERT_NEAR(ranking.candidates == 0 ? all : std::min(all, ranking.candidates), expected.blocks,
                      1 + expected.one_more);
        }
      }
    }
  }
  for (const std::string_view rule : {"dense", "unknown", "local", "every row", "few places", "sink head", "sink group",
                                      "diffuse head", "diffuse group", "late head", "late group"})
    EXPECT_GE(seen[rule], 100) << rule;
}

}  // namespace
}  // namespace ei::policy
