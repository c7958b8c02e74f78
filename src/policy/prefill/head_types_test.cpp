#include "policy/prefill/head_types.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "policy/prefill/habit_shares.h"
#include "support/prefill_run.h"

namespace ei::policy {
namespace {

PrefillOptions habit_options() {
  PrefillOptions options;
  options.rule = PrefillRule::kHabit;
  options.select = BlockRank::kAdaptive;
  return options;
}

AttentionSample sample_of(float sink, float distant) { return {.sink = sink, .far = distant, .distant = distant}; }

SampleMeans means_of(float sink, float distant) {
  SampleMeans means;
  add_sample(habit_options(), 2, sample_of(sink, distant), means);
  return means;
}

TEST(HeadTypes, TellLocalSinkAndDiffuseHeadsApart) {
  EXPECT_EQ(type_of({}), HeadType::kUnknown);
  EXPECT_EQ(type_of(means_of(0.00f, 0.008f)), HeadType::kLocal);
  EXPECT_EQ(type_of(means_of(0.96f, 0.001f)), HeadType::kLocal);
  EXPECT_EQ(type_of(means_of(0.96f, 0.03f)), HeadType::kSink);
  EXPECT_EQ(type_of(means_of(0.40f, 0.58f)), HeadType::kSink);
  EXPECT_EQ(type_of(means_of(0.50f, 0.21f)), HeadType::kDiffuse);
  EXPECT_EQ(type_of(means_of(0.00f, 0.70f)), HeadType::kDiffuse);
  EXPECT_EQ(type_of(means_of(0.03f, 0.10f)), HeadType::kDiffuse);
}

TEST(HeadTypes, AreSampledAtTheBeginningAndThenNowAndThen) {
  const PrefillOptions options = habit_options();  // segments of 512, dense below 4096
  std::vector<int32_t> sampled;
  for (int32_t segment = 0; segment < 34; ++segment)
    if (is_sampled_segment(options, segment)) sampled.push_back(segment);
  EXPECT_EQ(sampled, (std::vector<int32_t>{2, 3, 4, 5, 6, 7, 16, 32}));
  PrefillOptions early = options;
  early.threshold = 0;
  EXPECT_TRUE(is_sampled_segment(early, 7)) << "types show early in a text, dense or not";
  EXPECT_FALSE(is_sampled_segment(early, 8));
  PrefillOptions entropy = options;
  entropy.rule = PrefillRule::kEntropy;
  entropy.sample_every = 3;
  EXPECT_FALSE(make_prefill_method(entropy, {})->samples(8));
  EXPECT_TRUE(make_prefill_method(entropy, {})->samples(9));
  PrefillOptions peak = options;
  peak.select = BlockRank::kPeak;
  EXPECT_FALSE(is_sampled_segment(peak, 4));
}

TEST(HeadTypes, AreSampledEightTimesInEveryDoublingOfALongText) {
  PrefillOptions options = habit_options();
  options.rule = PrefillRule::kEntropy;
  options.sample_every = 2;
  const auto method = make_prefill_method(options, {});
  EXPECT_FALSE(method->samples(0));
  EXPECT_FALSE(method->samples(1));
  const auto samples = [&](int32_t begin, int32_t end) {
    int count = 0;
    for (int32_t segment = begin; segment < end; ++segment) count += method->samples(segment) ? 1 : 0;
    return count;
  };
  EXPECT_EQ(samples(16, 32), 8);
  EXPECT_EQ(samples(32, 64), 8);
  EXPECT_EQ(samples(64, 128), 8);
  EXPECT_EQ(samples(1024, 2048), 8);
}

TEST(HeadTypes, HabitAveragesTheDensePartAndForgetsSlowlyLater) {
  const PrefillOptions options = habit_options();
  SampleMeans means;
  add_sample(options, 2, sample_of(0.2f, 0.4f), means);
  add_sample(options, 3, sample_of(0.4f, 0.0f), means);
  EXPECT_FLOAT_EQ(means.sink, 0.3f);
  EXPECT_FLOAT_EQ(means.distant, 0.2f);
  add_sample(options, 12, sample_of(1.0f, 0.0f), means);
  EXPECT_FLOAT_EQ(means.sink, 0.37f);
  EXPECT_FLOAT_EQ(means.distant, 0.18f);
}

// The blocks that a head of this type reads in `segment`, its budget being that many blocks.
int32_t habit_count(PrefillOptions options, int32_t layer, HeadType type, int32_t segment, int32_t budget) {
  options.base_budget = budget * options.block;
  options.e_t = 1e9;  // rigid: the budget stays
  const auto method = make_prefill_method(options, {.layers = 8});
  LayerRecords run(1);
  run[0].segment = segment;
  run[0].heads.resize(1);
  run[0].heads[0].type = type;
  method->decide({.layer = layer, .segment = segment}, {}, run);
  return run[0].heads[0].blocks;
}

TEST(HeadTypes, HabitGivesLocalHeadsLittleAndOthersAShareOfTheText) {
  PrefillOptions options = habit_options();
  EXPECT_EQ(habit_count(options, 3, HeadType::kLocal, 40, 128), 16);
  EXPECT_EQ(habit_count(options, 3, HeadType::kUnknown, 40, 128), 160) << "as diffuse ones, until it shows";
  EXPECT_EQ(habit_count(options, 3, HeadType::kSink, 40, 128), 640);  // 40 segments of 512 are 2560 blocks of 8
  EXPECT_EQ(habit_count(options, 3, HeadType::kSink, 192, 128), 1024 + 4096) << "twice as much beyond 32768 tokens";
  EXPECT_EQ(habit_count(options, 3, HeadType::kDiffuse, 40, 128), 160);
  EXPECT_EQ(habit_count(options, 3, HeadType::kDiffuse, 192, 128), 768);
  EXPECT_EQ(habit_count(options, 3, HeadType::kDiffuse, 16, 128), 128) << "a share below the budget changes nothing";
  EXPECT_EQ(habit_count(options, 3, HeadType::kLocal, 2, 128), 128) << "a budget for everything is one for everything";
  PrefillOptions fixed = options;
  fixed.rule = PrefillRule::kFixed;
  for (const HeadType type : {HeadType::kSink, HeadType::kDiffuse})
    EXPECT_EQ(habit_count(fixed, 3, type, 40, 128), 128) << "a fixed budget does not grow";
  EXPECT_EQ(habit_count(fixed, 3, HeadType::kLocal, 40, 128), 16);
  options.sink_share = 1;
  EXPECT_EQ(habit_count(options, 3, HeadType::kSink, 192, 128), 192 * 64) << "never more than there is";
  options.sink_share = options.diffuse_share = 0;
  for (const HeadType type : {HeadType::kSink, HeadType::kDiffuse})
    EXPECT_EQ(habit_count(options, 3, type, 40, 128), 128);
}

TEST(HeadTypes, HabitGivesEarlyLayersTheirShareOfTheText) {
  PrefillOptions options = habit_options();
  options.diffuse_share = 0;
  options.early_share = 4;
  EXPECT_EQ(habit_count(options, 0, HeadType::kDiffuse, 40, 128), 640);
  EXPECT_EQ(habit_count(options, 0, HeadType::kDiffuse, 64, 128), 1024);
  EXPECT_EQ(habit_count(options, 0, HeadType::kDiffuse, 192, 128), 2048) << "beyond 32768 tokens half as much";
  EXPECT_EQ(habit_count(options, 1, HeadType::kDiffuse, 40, 128), 128);
}

BlockRanking ranking(const PrefillOptions& options, int32_t layer, HeadType type, int32_t segment = 20,
                     int64_t rated = 3072) {
  return ranking_for(options, {.layers = 8, .products = 1, .per_key = 1e9},
                     {.layer = layer, .segment = segment, .rows = 512}, type,
                     candidate_tokens(options, segment, rated));
}

TEST(HeadTypes, RankWithFewerRowsWhereHeadsAllowIt) {
  const PrefillOptions options = habit_options();
  EXPECT_TRUE(ranking(options, 1, HeadType::kLocal).latest);
  EXPECT_EQ(ranking(options, 1, HeadType::kUnknown).rows, 0);
  EXPECT_EQ(ranking(options, 1, HeadType::kDiffuse).rows, 128);
  EXPECT_EQ(ranking(options, 5, HeadType::kDiffuse).rows, 128);
  EXPECT_EQ(ranking(options, 6, HeadType::kDiffuse).rows, 64) << "the last quarter";
  EXPECT_EQ(ranking(options, 6, HeadType::kSink).rows, 256);
  EXPECT_EQ(ranking(options, 1, HeadType::kSink).rows, 256);
  EXPECT_EQ(ranking(options, 1, HeadType::kSink).queries, GroupQuery::kLeastLocal);
  PrefillOptions peak = options;
  peak.select = BlockRank::kPeak;
  EXPECT_FALSE(ranking(peak, 1, HeadType::kLocal).latest);
}

TEST(HeadTypes, LetEveryHeadRankWhereAskedTo) {
  PrefillOptions options = habit_options();
  options.candidate_share = 2;
  for (const HeadType type : {HeadType::kUnknown, HeadType::kSink, HeadType::kDiffuse}) {
    options.rank_queries = RankQueries::kHeads;
    EXPECT_EQ(ranking(options, 1, type).queries, GroupQuery::kEach);
    options.rank_queries = RankQueries::kAll;
    const BlockRanking all = ranking(options, 1, type);
    EXPECT_EQ(all.queries, GroupQuery::kEach);
    EXPECT_EQ(all.rows, 0);
    EXPECT_EQ(all.candidates, 0);
  }
  EXPECT_TRUE(ranking(options, 1, HeadType::kLocal).latest);
  options.rank_queries = RankQueries::kHeads;
  EXPECT_EQ(ranking(options, 1, HeadType::kDiffuse).rows, 128);
  EXPECT_GT(ranking(options, 1, HeadType::kDiffuse).candidates, 0);
  EXPECT_EQ(ranking(options, 1, HeadType::kSink).rows, 256);
}

// The further into a text, the more keys there are to rank, and the fewer queries may.
TEST(HeadTypes, LetAsManyQueriesRankAsTheModelCanAfford) {
  PrefillOptions options = habit_options();  // segments of 512
  const PrefillShape shape{.products = 1000 * 512, .per_key = 10};
  EXPECT_EQ(rank_queries_at(options, shape, 30), RankQueries::kAll);  // 10 * 30 * 512 = 0.3 * 1000 * 512
  EXPECT_EQ(rank_queries_at(options, shape, 31), RankQueries::kHeads);
  EXPECT_EQ(rank_queries_at(options, shape, 120), RankQueries::kHeads);  // an eighth of 10 * 120 * 512
  EXPECT_EQ(rank_queries_at(options, shape, 121), RankQueries::kGroup);
  for (const RankQueries queries : {RankQueries::kGroup, RankQueries::kHeads, RankQueries::kAll}) {
    options.rank_queries = queries;
    EXPECT_EQ(rank_queries_at(options, shape, 1), queries);
    EXPECT_EQ(rank_queries_at(options, shape, 1000), queries);
  }
  options.select = BlockRank::kPeak;
  EXPECT_EQ(rank_queries_at(options, shape, 1), RankQueries::kGroup);
}

TEST(HeadTypes, DiffuseHeadsRateAShareOfALongText) {
  PrefillOptions options = habit_options();
  EXPECT_EQ(ranking(options, 1, HeadType::kDiffuse, 100).candidates, 0);
  options.candidate_share = 2;
  EXPECT_EQ(ranking(options, 1, HeadType::kDiffuse, 10).candidates, 4096 / 8);
  EXPECT_EQ(ranking(options, 1, HeadType::kDiffuse, 40).candidates, 20480 / 2 / 8);
  EXPECT_EQ(ranking(options, 1, HeadType::kDiffuse, 64).candidates, 32768 / 2 / 8);
  EXPECT_EQ(ranking(options, 1, HeadType::kDiffuse, 192).candidates, (32768 + 65536 / 4) / 2 / 8);
  EXPECT_EQ(ranking(options, 1, HeadType::kSink, 100).candidates, 0);
  EXPECT_EQ(ranking(options, 1, HeadType::kDiffuse, 40, 12288).candidates, 12288 / 8) << "never fewer than are read";
}

// Three kv_heads: the rows of one look at ten places, those of the next at two and a half, those of the last at one.
TEST(HeadTypes, WhereEntropiesDecideThePlacesOfRowsSayHowManyRate) {
  PrefillOptions options = habit_options();
  options.rule = PrefillRule::kEntropy;
  options.base_budget = 0;
  options.density = 0.02;
  testing::PrefillTrace trace;
  trace.layers = 2;
  trace.kv_heads = 3;
  trace.tokens = 100 * options.segment;
  trace.products = 1;
  trace.per_key = 1e9;  // rating with all rows and blocks costs too much
  for (int32_t row = 0; row < 200; ++row)
    for (const float places : {10.0f, 2.5f, 1.0f})
      trace.measures.push_back(
          {.midrange_entropy = 0,
           .covering = 0,
           .sample = {.far = 0.5f, .distant = 0.5f, .segment_entropy = 5.0f, .row_entropy = 5.0f - std::log(places)}});
  const auto last = [&] {
    testing::PrefillRun run(options, trace);
    run.read_whole();
    return run.records(0)[98].heads;
  };
  const std::vector<HeadRecord> heads = last();
  for (const HeadRecord& head : heads) ASSERT_EQ(head.type, HeadType::kDiffuse);
  EXPECT_EQ(heads[0].ranking.queries, GroupQuery::kMean) << "many places: as its type does";
  EXPECT_EQ(heads[0].ranking.rows, options.segment / 4);
  EXPECT_EQ(heads[0].ranking.candidates, std::max(options.threshold / options.block, 2 * heads[0].blocks));
  EXPECT_EQ(heads[1].ranking.queries, GroupQuery::kEach);
  EXPECT_EQ(heads[1].ranking.rows, options.segment / 4) << "the square of a half";
  EXPECT_NEAR(heads[1].ranking.candidates, 8 * heads[1].blocks, 8) << "four times as many where a quarter rates";
  EXPECT_EQ(heads[2].ranking.queries, GroupQuery::kEach);
  EXPECT_EQ(heads[2].ranking.rows, options.segment / 16) << "the least";
  EXPECT_GT(heads[2].ranking.candidates, 2 * heads[2].blocks);
  options.few_places = 20;
  EXPECT_EQ(last()[0].ranking.queries, GroupQuery::kEach);
  EXPECT_EQ(last()[0].ranking.rows, options.segment / 4);
  options.few_places = 0;
  for (const HeadRecord& head : last()) EXPECT_EQ(head.ranking.queries, GroupQuery::kMean) << "all by types";
  options.few_places = 5;
  options.rated_per_read = 0;
  EXPECT_EQ(last()[1].ranking.candidates, 0);
  trace.per_key = 1e-9;
  EXPECT_EQ(last()[2].ranking.rows, 0) << "every row while it costs little";
}

}  // namespace
}  // namespace ei::policy
