// What must hold for every method, whatever it decides: the registry is walked, so a new row is tested by being there.
#include "policy/registry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/random.h"
#include "policy/kv/option_table.h"
#include "policy/prefill/option_table.h"
#include "support/prefill_run.h"

namespace ei::policy {
namespace {

using testing::PrefillRun;
using testing::PrefillTrace;
using testing::random_trace;

PrefillOptions small(PrefillOptions options) {
  options.segment = 32;
  options.block = 8;
  options.threshold = 64;
  if (options.base_budget > 0 || options.rule != PrefillRule::kEntropy) options.base_budget = 64;
  options.local_budget = 16;
  options.density_base = 32;
  return options;
}

// Every method with its preset, then every budget rule, in a shape small enough to plan a hundred times.
std::vector<std::pair<std::string, PrefillOptions>> all_prefills() {
  std::vector<std::pair<std::string, PrefillOptions>> all;
  for (const Method& method : methods())
    if (method.prefill.rule != PrefillRule::kDense) all.emplace_back(method.name, small(method.prefill));
  for (const PrefillEntry& rule : prefill_rules()) {
    PrefillOptions options = find_method("entropyinfer")->prefill;
    options.rule = {rule.name};
    all.emplace_back(rule.name, small(options));
  }
  return all;
}

template <typename Check>
void for_every_method_and_trace(Check check) {
  for (const auto& [name, options] : all_prefills()) {
    for (uint64_t seed = 1; seed <= 25; ++seed) {
      SCOPED_TRACE(::testing::Message() << name << ", seed " << seed);
      check(options, random_trace(options, seed), seed);
    }
  }
}

std::vector<int32_t> counts_of(const PrefillRun& run, const PrefillTrace& trace) {
  std::vector<int32_t> counts;
  for (int32_t layer = 0; layer < trace.layers; ++layer)
    for (const SegmentRecord& record : run.records(layer))
      for (const HeadRecord& head : record.heads) counts.push_back(head.blocks);
  return counts;
}

std::vector<int32_t> whole_counts(const PrefillOptions& options, const PrefillTrace& trace) {
  PrefillRun run(options, trace);
  run.read_whole();
  return counts_of(run, trace);
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

TEST(Methods, GiveFewGlobalLayersTheBudgetOfAll) {
  PrefillOptions preset = find_method("entropyinfer")->prefill;
  preset.density = 0.1;
  EXPECT_DOUBLE_EQ(for_model(preset, 16, 16).density, 0.1);
  EXPECT_DOUBLE_EQ(for_model(preset, 18, 3).density, 0.6);
  EXPECT_EQ(for_model(preset, 18, 3).density_base, 6 * preset.density_base);
  EXPECT_DOUBLE_EQ(for_model(preset, 48, 4).density, 1);
  EXPECT_DOUBLE_EQ(for_model(preset, 4, 0).density, 0.4);  // none is sparse, whatever it says
  EXPECT_EQ(for_model(preset, 18, 3).base_budget, 0) << "a density, no budget";
  preset.rule = PrefillRule::kHabit;
  EXPECT_EQ(for_model(preset, 16, 16).base_budget, 1024);
  EXPECT_EQ(for_model(preset, 18, 3).base_budget, 6144);
  EXPECT_EQ(for_model(preset, 26, 4).base_budget, 6656);
  EXPECT_EQ(for_model(preset, 34, 5).base_budget, 6960);  // whole blocks
  EXPECT_EQ(for_model(preset, 4, 0).base_budget, 4096);
  PrefillOptions own = preset;
  own.base_budget = 512;
  EXPECT_EQ(for_model(own, 18, 3).base_budget, 512);
  own = preset;
  own.min_budget = 2048;
  EXPECT_EQ(for_model(own, 16, 16).base_budget, 2048);
  EXPECT_EQ(for_model(find_method("entropyinfer-released")->prefill, 18, 3).base_budget, 2048);
}

TEST(Methods, ReadNoBlockFromTheFutureAndNeverNothing) {
  for_every_method_and_trace([](const PrefillOptions& options, const PrefillTrace& trace, uint64_t) {
    PrefillRun run(options, trace);
    run.read_whole();
    for (int32_t layer = 0; layer < trace.layers; ++layer) {
      const BlockPlan plan = run.plan(layer);
      ASSERT_EQ(plan.num_segments, trace.segments(options));
      for (const SegmentRecord& record : run.records(layer)) {
        const int32_t visible = record.segment * options.grid().blocks_per_segment();
        for (size_t h = 0; h < record.heads.size(); ++h) {
          EXPECT_LE(record.heads[h].blocks, visible);
          EXPECT_GE(record.heads[h].blocks, std::min(visible, 1));
          const size_t list = h * static_cast<size_t>(plan.num_segments) + static_cast<size_t>(record.segment);
          EXPECT_EQ(plan.offsets[list + 1] - plan.offsets[list], record.dense ? 0 : record.heads[h].blocks);
        }
      }
    }
  });
}

TEST(Methods, ReadNoMoreThanTheirBudgetAllows) {
  for_every_method_and_trace([](const PrefillOptions& options, const PrefillTrace& trace, uint64_t) {
    PrefillRun run(options, trace);
    run.read_whole();
    const bool bounded = find_prefill_rule(options.rule)->bounded;
    for (int32_t layer = options.layer_skip; layer < trace.layers && bounded; ++layer)
      for (const SegmentRecord& record : run.records(layer))
        for (size_t h = 0; h < record.heads.size() && !record.dense; ++h)
          EXPECT_LE(record.heads[h].blocks, options.max_factor * options.base_budget / options.block);
  });
}

// Blocks that a text reads where there is a choice, and what the density allows, but for whole blocks and for kv_heads
// that read the least.
struct ReadAndAllowed {
  double read = 0;
  double allowed = 0;
};

ReadAndAllowed read_of_density(const PrefillOptions& options, const PrefillTrace& trace) {
  PrefillRun run(options, trace);
  run.read_whole();
  const int32_t least = std::max(1, options.local_budget / options.block);
  ReadAndAllowed sums;
  for (int32_t layer = 0; layer < trace.layers; ++layer) {
    for (const SegmentRecord& record : run.records(layer)) {
      if (record.dense) continue;
      const double before = static_cast<double>(record.segment) * options.segment;
      const double density = std::min(1.0, options.density + options.density_base / before);
      for (const HeadRecord& head : record.heads) {
        sums.read += head.blocks - (head.blocks > least ? 1 : least);
        sums.allowed += density * before / options.block;
      }
    }
  }
  return sums;
}

// Every kv_head goes on as it began, so that nothing has changed since a density was divided.
TEST(Methods, ReadNoMoreThanTheirDensityWhereHeadsStayAsTheyAre) {
  int checked = 0;
  for_every_method_and_trace([&](const PrefillOptions& options, PrefillTrace trace, uint64_t) {
    if (!find_prefill_rule(options.rule)->by_density) return;
    const int32_t segments = trace.segments(options);
    for (int32_t layer = 0; layer < trace.layers; ++layer)
      for (int32_t segment = 1; segment < segments; ++segment)
        for (size_t h = 0; h < static_cast<size_t>(trace.kv_heads); ++h)
          trace.measures[static_cast<size_t>((layer * segments + segment) * trace.kv_heads) + h] =
              trace.at(options, layer, 0, h);
    const ReadAndAllowed sums = read_of_density(options, trace);
    EXPECT_LE(sums.read, 1.02 * sums.allowed);
    checked += sums.allowed > 0 ? 1 : 0;
  });
  EXPECT_GE(checked, 40);
}

// Every kv_head opens up all along the text, at a pace of its own.
PrefillTrace opening_trace(const PrefillOptions& options, uint64_t seed) {
  Random random(seed);
  PrefillTrace trace = random_trace(options, seed);
  trace.layers = 4;
  trace.kv_heads = 3;
  trace.tokens = random.between(40, 96) * options.segment;
  const int32_t segments = trace.segments(options);
  trace.measures.resize(static_cast<size_t>(trace.layers * segments * trace.kv_heads));
  for (int32_t head = 0; head < trace.layers * trace.kv_heads; ++head) {
    const double far = 0.05 + 0.75 * random.uniform();
    const double begin = 1.5 + 2 * random.uniform();
    const double pace = 0.02 + 0.03 * random.uniform();
    for (int32_t segment = 0; segment < segments; ++segment) {
      const int32_t row = head / trace.kv_heads * segments + segment;
      AttentionSample& sample =
          trace.measures[static_cast<size_t>(row * trace.kv_heads + head % trace.kv_heads)].sample;
      sample = {.far = static_cast<float>(far), .distant = static_cast<float>(far), .row_entropy = 1};
      sample.segment_entropy = static_cast<float>(begin + pace * segment) + 0.05f * random.normal();
    }
  }
  return trace;
}

// Weights grow by a factor of 1.3 to 2.1 in eight segments, and a density is divided by what was known before them.
// What that reads too much, an eighth to a quarter of all, must be taken off beforehand.
TEST(Methods, ReadLittleMoreThanTheirDensityWhereHeadsOpenUp) {
  for (const auto& [name, options] : all_prefills()) {
    if (!find_prefill_rule(options.rule)->by_density) continue;
    for (uint64_t seed = 1; seed <= 25; ++seed) {
      SCOPED_TRACE(::testing::Message() << name << ", seed " << seed);
      const ReadAndAllowed sums = read_of_density(options, opening_trace(options, seed));
      EXPECT_LE(sums.read, 1.10 * sums.allowed);
      EXPECT_GE(sums.read, 0.90 * sums.allowed);
    }
  }
}

TEST(Methods, DecideTheSameTwice) {
  for_every_method_and_trace([](const PrefillOptions& options, const PrefillTrace& trace, uint64_t) {
    EXPECT_EQ(whole_counts(options, trace), whole_counts(options, trace));
  });
}

TEST(Methods, PlanAPromptInChunksAsInOne) {
  for_every_method_and_trace([](PrefillOptions options, const PrefillTrace& trace, uint64_t seed) {
    options.rigid_test = RigidTest::kCausal;  // the whole-trace test is the one that depends on the cut
    Random random(seed + 1000);
    PrefillRun run(options, trace);
    run.read([&](int32_t begin) { return begin + static_cast<int32_t>(random.between(1, 7)); });
    EXPECT_EQ(counts_of(run, trace), whole_counts(options, trace));
  });
}

TEST(Methods, GoOnFromWhereTheyWereRewoundTo) {
  for_every_method_and_trace([](PrefillOptions options, const PrefillTrace& trace, uint64_t seed) {
    options.rigid_test = RigidTest::kCausal;
    const int32_t segments = trace.segments(options);
    PrefillRun run(options, trace);
    run.read_whole();
    const std::vector<int32_t> whole = counts_of(run, trace);
    Random random(seed + 2000);
    const auto from = static_cast<int32_t>(random.below(static_cast<uint64_t>(segments)));
    run.forget_from(from);
    for (int32_t segment = from; segment < segments; ++segment) run.read_chunk(segment, segment + 1);
    EXPECT_EQ(counts_of(run, trace), whole);
  });
}

TEST(Methods, PermutedHeadsPermuteTheCounts) {
  for_every_method_and_trace([](const PrefillOptions& options, const PrefillTrace& trace, uint64_t) {
    PrefillTrace turned = trace;
    const auto heads = static_cast<size_t>(trace.kv_heads);
    for (size_t row = 0; row < trace.measures.size(); row += heads)
      for (size_t h = 0; h < heads; ++h) turned.measures[row + (h + 1) % heads] = trace.measures[row + h];
    const std::vector<int32_t> counts = whole_counts(options, trace);
    const std::vector<int32_t> others = whole_counts(options, turned);
    for (size_t row = 0; row < counts.size(); row += heads)
      for (size_t h = 0; h < heads; ++h) EXPECT_EQ(others[row + (h + 1) % heads], counts[row + h]);
  });
}

TEST(Methods, ReadEverythingWhenTheBudgetCoversIt) {
  for_every_method_and_trace([](PrefillOptions options, const PrefillTrace& trace, uint64_t) {
    options.base_budget = 1 << 20;
    options.min_budget = 1 << 20;
    PrefillRun run(options, trace);
    run.read_whole();
    for (int32_t layer = 0; layer < trace.layers; ++layer)
      for (const SegmentRecord& record : run.records(layer))
        for (const HeadRecord& head : record.heads)
          EXPECT_EQ(head.blocks, record.segment * options.grid().blocks_per_segment());
  });
}

// Each option of the table is read by something, has a help text, and takes the value it shows.
TEST(Methods, DeclareOptionsThatTakeTheirOwnValues) {
  std::set<std::string_view> names;
  for (const OptionSpec<PrefillOptions>& spec : prefill_option_table()) {
    SCOPED_TRACE(spec.name);
    EXPECT_TRUE(names.insert(spec.name).second);
    EXPECT_FALSE(spec.help.empty());
    bool read = false;
    for (const auto& [name, options] : all_prefills()) {
      read = read || spec.read(options);
      PrefillOptions copy;
      const OptionValue value = spec.get(options);
      std::string text;
      if (const auto* whole = std::get_if<int64_t>(&value)) text = std::to_string(*whole);
      if (const auto* real = std::get_if<double>(&value)) text = str_format("%.17g", *real);
      if (const auto* on = std::get_if<bool>(&value)) text = *on ? "on" : "off";
      if (const auto* word = std::get_if<std::string_view>(&value)) text = *word;
      EXPECT_TRUE(spec.set(copy, text).ok()) << text;
      EXPECT_EQ(spec.get(copy), value);
    }
    EXPECT_TRUE(read);
    EXPECT_FALSE(spec.read(PrefillOptions{})) << "a dense prefill reads no option";
  }
}

// What an entry says that its method reads is an option, and with its preset or another --select it is read.
TEST(Methods, NameOptionsThatThereAre) {
  for (const PrefillEntry& rule : prefill_rules()) {
    PrefillOptions options{.rule = {rule.name}};
    std::set<std::string_view> read;
    for (const BlockRank select : {BlockRank::kMidrange, BlockRank::kAdaptive}) {
      options.select = select;
      for (const OptionSpec<PrefillOptions>& spec : prefill_option_table())
        if (spec.read(options)) read.insert(spec.name);
    }
    for (const std::string_view name : rule.reads) EXPECT_TRUE(read.contains(name)) << rule.name << ": " << name;
  }
}

// What the table of docs/options.md says of a value is what set() takes.
template <typename Options>
void expect_ranges(const std::vector<OptionSpec<Options>>& table) {
  for (const OptionSpec<Options>& spec : table) {
    SCOPED_TRACE(spec.name);
    EXPECT_FALSE(spec.range.empty());
    Options options;
    const auto takes = [&](double value) { return spec.set(options, str_format("%.9g", value)).ok(); };
    double low = 0;
    double high = 0;
    if (std::sscanf(spec.range.c_str(), "whole, from %lf", &low) == 1 ||
        std::sscanf(spec.range.c_str(), "number, from %lf", &low) == 1) {
      EXPECT_TRUE(takes(low) && takes(1000) && !takes(low - 1));
    } else if (std::sscanf(spec.range.c_str(), "number, %lf to %lf", &low, &high) == 2) {
      EXPECT_TRUE(takes(low) && takes(high) && !takes(low - 1) && !takes(high + 1));
    } else {
      EXPECT_EQ(spec.range == "name", !spec.choices.empty()) << spec.range;
      EXPECT_EQ(spec.range == "on or off", spec.set(options, "on").ok() && spec.set(options, "off").ok());
    }
  }
}

TEST(Options, SayTheirRange) {
  expect_ranges(prefill_option_table());
  expect_ranges(kv_option_table());
}

// Options that no flag has set are held to the same ranges: whoever embeds the engine fills them in by hand.
TEST(Options, OutOfTheirRangeAreRefusedByName) {
  const auto error_of = [](const auto& options) {
    const Status status = validate(options);
    return status.ok() ? std::string() : status.error().message;
  };
  PrefillOptions prefill = find_method("entropyinfer")->prefill;
  EXPECT_EQ(error_of(prefill), "");
  prefill.open_memory = 1.5;
  EXPECT_EQ(error_of(prefill), "open-memory must lie between 0 and 0.999: 1.5");
  prefill = find_method("entropyinfer")->prefill;
  prefill.rated_per_read = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(error_of(prefill), "rated-per-read must lie between 0 and 1000: nan");
  prefill = find_method("entropyinfer")->prefill;
  prefill.shuffle = -1;
  EXPECT_EQ(error_of(prefill), "shuffle must be a number of at least 0: -1");
  KvOptions kv = find_method("snapkv")->kv;
  EXPECT_EQ(error_of(kv), "");
  kv.gap = -2;
  EXPECT_EQ(error_of(kv), "kv-gap must be a number of at least -1: -2");
  kv = find_method("snapkv")->kv;
  kv.floor_share = 2;
  EXPECT_EQ(error_of(kv), "kv-floor must lie between 0 and 1: 2");
}

}  // namespace
}  // namespace ei::policy
