// Records through bytes: what is read behind them is decided as if nothing had been saved and loaded.
#include <gtest/gtest.h>

#include <map>

#include "policy/registry.h"
#include "support/prefill_run.h"

namespace ei::policy {
namespace {

using testing::PrefillRun;
using testing::PrefillTrace;

constexpr uint64_t kSavedTraces = 12;

// Every budget rule, in small segments.
std::vector<PrefillOptions> rules_to_save() {
  std::vector<PrefillOptions> all;
  for (const PrefillEntry& rule : prefill_rules()) {
    PrefillOptions options = find_method("entropyinfer")->prefill;
    options.rule = {rule.name};
    options.segment = 32;
    options.threshold = 64;
    options.base_budget = rule.by_density ? 0 : 64;
    options.local_budget = 16;
    options.density_base = 32;
    all.push_back(options);
  }
  return all;
}

PrefillTrace long_trace(const PrefillOptions& options, uint64_t seed) {
  PrefillTrace trace = testing::random_trace(options, seed);
  while (trace.segments(options) < 24) trace = testing::random_trace(options, seed += kSavedTraces);
  return trace;
}

void read_segments(PrefillRun& run, int32_t begin, int32_t end) {
  for (int32_t segment = begin; segment < end; ++segment) run.read_chunk(segment, segment + 1);
}

std::vector<int32_t> counts_from(const PrefillRun& run, const PrefillTrace& trace, int32_t segment) {
  std::vector<int32_t> counts;
  for (int32_t layer = 0; layer < trace.layers; ++layer)
    for (const SegmentRecord& record : run.records(layer))
      for (const HeadRecord& head : record.heads)
        if (record.segment >= segment) counts.push_back(head.blocks);
  return counts;
}

TEST(WalkMemory, ReadingGoesOnAsIfItHadNotStopped) {
  std::map<std::string_view, int> history;  // traces in which a rule without it would have decided otherwise
  for (const PrefillOptions& options : rules_to_save()) {
    for (uint64_t seed = 1; seed <= kSavedTraces; ++seed) {
      SCOPED_TRACE(::testing::Message() << options.rule.name << ", seed " << seed);
      const PrefillTrace trace = long_trace(options, seed);
      const int32_t segments = trace.segments(options);
      const auto stop = static_cast<int32_t>(Random(seed).between(3, segments - 1));
      PrefillRun whole(options, trace);
      PrefillRun first(options, trace);
      PrefillRun second(options, trace);
      PrefillRun fresh(options, trace);
      read_segments(whole, 0, segments);
      read_segments(first, 0, stop);
      ASSERT_TRUE(second.restore(first.saved()).ok());
      EXPECT_EQ(second.saved(), first.saved());
      read_segments(second, stop, segments);
      read_segments(fresh, stop, segments);
      EXPECT_EQ(counts_from(second, trace, 0), counts_from(whole, trace, 0));
      history[options.rule.name] += counts_from(fresh, trace, stop) != counts_from(whole, trace, stop) ? 1 : 0;
    }
  }
  for (const char* rule : {"entropy", "growth", "habit"}) EXPECT_GT(history[rule], 0) << rule;
}

TEST(WalkMemory, OfAnotherMethodOrModelIsNotTaken) {
  const PrefillOptions options = rules_to_save().front();
  const PrefillTrace trace = long_trace(options, 3);
  PrefillRun run(options, trace);
  read_segments(run, 0, 20);
  PrefillOptions other = options;
  other.alpha += 0.25;
  other.density += 0.25;
  PrefillRun otherwise(other, trace);
  ASSERT_TRUE(otherwise.restore(run.saved()).ok());
  EXPECT_TRUE(otherwise.records(0).empty());
  PrefillTrace wider = trace;
  ++wider.layers;
  PrefillRun elsewhere(options, wider);
  ASSERT_TRUE(elsewhere.restore(run.saved()).ok());
  EXPECT_TRUE(elsewhere.records(0).empty());
}

TEST(WalkMemory, DamagedIsAnAnswerAndLeavesNothingBehind) {
  const PrefillOptions options = rules_to_save().front();
  const PrefillTrace trace = long_trace(options, 5);
  PrefillRun run(options, trace);
  read_segments(run, 0, 10);
  const std::string bytes = run.saved();
  for (size_t kept = 0; kept < bytes.size(); kept += 1 + bytes.size() / 500) {
    PrefillRun cut(options, trace);
    const Status status = cut.restore(std::string_view(bytes).substr(0, kept));
    ASSERT_FALSE(status.ok()) << kept << " of " << bytes.size();
    EXPECT_EQ(status.error().kind, ErrorKind::kUsage);
    EXPECT_TRUE(cut.records(0).empty());
  }
  EXPECT_FALSE(PrefillRun(options, trace).restore(bytes + "x").ok());
  Random random(6);
  for (int i = 0; i < 300; ++i) {
    std::string changed = bytes;
    changed[static_cast<size_t>(random.below(std::ssize(bytes)))] = static_cast<char>(random.below(256));
    PrefillRun damaged(options, trace);
    if (damaged.restore(changed).ok()) read_segments(damaged, 10, 24);  // other numbers, and nothing worse
  }
}

}  // namespace
}  // namespace ei::policy
