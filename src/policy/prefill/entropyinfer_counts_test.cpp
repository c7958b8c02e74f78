// How many blocks the default method reads, against a plain reference written from its formula, over random traces and
// options.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string_view>

#include "policy/prefill/option_table.h"
#include "policy/registry.h"
#include "support/plain_entropy.h"
#include "support/prefill_run.h"

namespace ei::policy {
namespace {

using testing::random_entropy_options;

// No option of the method stays what it is in the preset, but for those that put something else in its place.
TEST(EntropyInferCounts, AreComparedUnderEveryOptionThatTheMethodReads) {
  std::map<std::string_view, std::set<OptionValue>> values;
  for (uint64_t seed = 1; seed <= testing::kEntropyOptions; ++seed) {
    const PrefillOptions options = random_entropy_options(seed);
    EXPECT_TRUE(validate(options).ok()) << "seed " << seed;
    for (const OptionSpec<PrefillOptions>& spec : prefill_option_table())
      if (spec.read(options)) values[spec.name].insert(spec.get(options));
  }
  const std::set<std::string_view> others = {"budget-rule", "select", "shuffle"};
  for (const auto& [name, seen] : values) EXPECT_GE(seen.size(), others.contains(name) ? 1u : 2u) << name;
  for (const std::string_view name : find_prefill_rule(PrefillRule::kEntropy)->reads)
    EXPECT_TRUE(values.contains(name)) << name;
}

TEST(EntropyInferCounts, AreThoseOfThePlainReference) {
  for (uint64_t seed = 1; seed <= testing::kEntropyOptions; ++seed) {
    const PrefillOptions options = random_entropy_options(seed);
    for (uint64_t text = 1; text <= 4; ++text) {
      const testing::PrefillTrace trace = testing::random_trace(options, 100 * seed + text);
      testing::PrefillRun run(options, trace);
      run.read_whole();
      const testing::PlainEntropy reference(options, trace);
      for (int32_t layer = 0; layer < trace.layers; ++layer) {
        for (const SegmentRecord& record : run.records(layer)) {
          for (size_t h = 0; h < record.heads.size(); ++h) {
            // A share may lie on the edge of a block.
            EXPECT_NEAR(record.heads[h].blocks, reference.count(layer, record.segment, h), 1)
                << "seed " << seed << ", text " << text << ", layer " << layer << ", segment " << record.segment
                << ", kv_head " << h;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace ei::policy
