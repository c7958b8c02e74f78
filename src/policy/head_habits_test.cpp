#include "policy/head_habits.h"

#include <gtest/gtest.h>

#include <vector>

namespace ei::policy {
namespace {

PrefillOptions habit_options() {
  PrefillOptions options;
  options.rule = PrefillRule::kEntropy;
  options.select = BlockRank::kHabit;
  return options;
}

HeadHabit habit_of(float first, float far) {
  HeadHabit habit;
  add_probe(habit_options(), 2, first, far, habit);
  return habit;
}

TEST(HeadHabits, TellsLocalRestingAndWideHeadsApart) {
  EXPECT_EQ(kind_of({}), HeadKind::kUnknown);
  EXPECT_EQ(kind_of(habit_of(0.00f, 0.008f)), HeadKind::kLocal);
  EXPECT_EQ(kind_of(habit_of(0.96f, 0.001f)), HeadKind::kLocal);
  EXPECT_EQ(kind_of(habit_of(0.96f, 0.03f)), HeadKind::kResting);
  EXPECT_EQ(kind_of(habit_of(0.40f, 0.58f)), HeadKind::kResting);
  EXPECT_EQ(kind_of(habit_of(0.50f, 0.21f)), HeadKind::kWide);
  EXPECT_EQ(kind_of(habit_of(0.00f, 0.70f)), HeadKind::kWide);
  EXPECT_EQ(kind_of(habit_of(0.03f, 0.10f)), HeadKind::kWide);
}

TEST(HeadHabits, ProbesTheBeginningAndThenEverySixteenthSegment) {
  const PrefillOptions options = habit_options();  // segments of 512, dense below 4096
  std::vector<int32_t> probed;
  for (int32_t segment = 0; segment < 34; ++segment)
    if (is_probed_segment(options, segment)) probed.push_back(segment);
  EXPECT_EQ(probed, (std::vector<int32_t>{2, 3, 4, 5, 6, 7, 16, 32}));
  PrefillOptions early = options;
  early.threshold = 0;
  EXPECT_TRUE(is_probed_segment(early, 7)) << "habits show early in a text, dense or not";
  EXPECT_FALSE(is_probed_segment(early, 8));
  PrefillOptions peak = options;
  peak.select = BlockRank::kPeak;
  EXPECT_FALSE(is_probed_segment(peak, 4));
}

TEST(HeadHabits, AveragesTheDensePartAndForgetsSlowlyLater) {
  const PrefillOptions options = habit_options();
  HeadHabit habit;
  add_probe(options, 2, 0.2f, 0.4f, habit);
  add_probe(options, 3, 0.4f, 0.0f, habit);
  EXPECT_FLOAT_EQ(habit.first, 0.3f);
  EXPECT_FLOAT_EQ(habit.far, 0.2f);
  add_probe(options, 12, 1.0f, 0.0f, habit);
  EXPECT_FLOAT_EQ(habit.first, 0.37f);
  EXPECT_FLOAT_EQ(habit.far, 0.18f);
}

TEST(HeadHabits, GivesLocalHeadsLittleAndOthersAShareOfTheText) {
  PrefillOptions options = habit_options();
  options.resting_share = 4;
  options.wide_share = 16;
  EXPECT_EQ(count_for(options, 3, HeadKind::kLocal, 40, 128), 16);
  EXPECT_EQ(count_for(options, 3, HeadKind::kUnknown, 40, 128), 160) << "as wide ones, until it shows what they are";
  EXPECT_EQ(count_for(options, 3, HeadKind::kResting, 40, 128), 640);  // 40 segments of 512 are 2560 blocks of 8
  EXPECT_EQ(count_for(options, 3, HeadKind::kResting, 192, 128), 1024 + 4096) << "twice as much beyond 32768 tokens";
  EXPECT_EQ(count_for(options, 3, HeadKind::kWide, 40, 128), 160);
  EXPECT_EQ(count_for(options, 3, HeadKind::kWide, 192, 128), 768);
  EXPECT_EQ(count_for(options, 3, HeadKind::kWide, 16, 128), 128) << "a share below the budget changes nothing";
  EXPECT_EQ(count_for(options, 3, HeadKind::kLocal, 2, 128), 128) << "a budget for everything is one for everything";
  PrefillOptions fixed = options;
  fixed.rule = PrefillRule::kFixed;
  for (const HeadKind kind : {HeadKind::kResting, HeadKind::kWide})
    EXPECT_EQ(count_for(fixed, 3, kind, 40, 128), 128) << "a fixed budget does not grow";
  options.resting_share = 1;
  EXPECT_EQ(count_for(options, 3, HeadKind::kResting, 192, 128), 192 * 64) << "never more than there is";
  options.resting_share = options.wide_share = 0;
  for (const HeadKind kind : {HeadKind::kResting, HeadKind::kWide})
    EXPECT_EQ(count_for(options, 3, kind, 40, 128), 128);
}

TEST(HeadHabits, GivesEarlyLayersTheirShareOfTheText) {
  PrefillOptions options = habit_options();
  options.wide_share = 0;
  EXPECT_TRUE(is_dense_layer(options, 0));
  options.early_share = 4;
  EXPECT_FALSE(is_dense_layer(options, 0));
  EXPECT_EQ(count_for(options, 0, HeadKind::kWide, 40, 128), 640);
  EXPECT_EQ(count_for(options, 0, HeadKind::kWide, 64, 128), 1024);
  EXPECT_EQ(count_for(options, 0, HeadKind::kWide, 192, 128), 2048) << "of what lies beyond 32768 tokens, half as much";
  EXPECT_EQ(count_for(options, 1, HeadKind::kWide, 40, 128), 128);
}

TEST(HeadHabits, AsksFewerRowsWhereHeadsAllowIt) {
  const PrefillOptions options = habit_options();
  EXPECT_TRUE(care_for(options, Asking::kGroup, {1, 8}, HeadKind::kLocal, 20, 512).latest);
  EXPECT_EQ(care_for(options, Asking::kGroup, {1, 8}, HeadKind::kUnknown, 20, 512).rows, 0);
  EXPECT_EQ(care_for(options, Asking::kGroup, {1, 8}, HeadKind::kWide, 20, 512).rows, 128);
  EXPECT_EQ(care_for(options, Asking::kGroup, {5, 8}, HeadKind::kWide, 20, 512).rows, 128);
  EXPECT_EQ(care_for(options, Asking::kGroup, {6, 8}, HeadKind::kWide, 20, 512).rows, 64) << "the last quarter";
  EXPECT_EQ(care_for(options, Asking::kGroup, {6, 8}, HeadKind::kResting, 20, 512).rows, 256);
  EXPECT_EQ(care_for(options, Asking::kGroup, {1, 8}, HeadKind::kResting, 20, 512).rows, 256);
  EXPECT_EQ(care_for(options, Asking::kGroup, {1, 8}, HeadKind::kResting, 20, 512).voices, Voices::kHomeless);
  PrefillOptions peak = options;
  peak.select = BlockRank::kPeak;
  EXPECT_FALSE(care_for(peak, Asking::kGroup, {1, 8}, HeadKind::kLocal, 20, 512).latest);
}

TEST(HeadHabits, LetsEveryHeadAskWhereAskedTo) {
  PrefillOptions options = habit_options();
  options.rated_share = 2;
  for (const HeadKind kind : {HeadKind::kUnknown, HeadKind::kResting, HeadKind::kWide}) {
    EXPECT_EQ(care_for(options, Asking::kHeads, {1, 8}, kind, 20, 512).voices, Voices::kEach);
    const HeadCare all = care_for(options, Asking::kAll, {1, 8}, kind, 20, 512);
    EXPECT_EQ(all.voices, Voices::kEach);
    EXPECT_EQ(all.rows, 0);
    EXPECT_EQ(all.blocks, 0);
  }
  EXPECT_EQ(care_for(options, Asking::kHeads, {1, 8}, HeadKind::kWide, 20, 512).rows, 128);
  EXPECT_GT(care_for(options, Asking::kHeads, {1, 8}, HeadKind::kWide, 20, 512).blocks, 0);
  EXPECT_EQ(care_for(options, Asking::kHeads, {1, 8}, HeadKind::kResting, 20, 512).rows, 256);
  EXPECT_TRUE(care_for(options, Asking::kAll, {1, 8}, HeadKind::kLocal, 20, 512).latest);
}

// The further into a text, the more keys there are to ask about, and the fewer may ask.
TEST(HeadHabits, LetsAsManyAskAsTheModelCanAfford) {
  PrefillOptions options = habit_options();  // segments of 512
  const AskingPrice price{.products = 1000 * 512, .per_key = 10};
  EXPECT_EQ(asking_at(options, price, 30), Asking::kAll);  // 10 * 30 * 512 = 0.3 * 1000 * 512
  EXPECT_EQ(asking_at(options, price, 31), Asking::kHeads);
  EXPECT_EQ(asking_at(options, price, 120), Asking::kHeads);  // an eighth of 10 * 120 * 512 = 0.15 * 1000 * 512
  EXPECT_EQ(asking_at(options, price, 121), Asking::kGroup);
  for (const Asking asking : {Asking::kGroup, Asking::kHeads, Asking::kAll}) {
    options.asking = asking;
    EXPECT_EQ(asking_at(options, price, 1), asking);
    EXPECT_EQ(asking_at(options, price, 1000), asking);
  }
  options.select = BlockRank::kPeak;
  EXPECT_EQ(asking_at(options, price, 1), Asking::kGroup);
}

TEST(HeadHabits, WideHeadsRateAShareOfALongText) {
  PrefillOptions options = habit_options();
  EXPECT_EQ(care_for(options, Asking::kGroup, {1, 8}, HeadKind::kWide, 100, 512).blocks, 0);
  options.rated_share = 2;
  options.base_budget = 1024;
  EXPECT_EQ(care_for(options, Asking::kGroup, {1, 8}, HeadKind::kWide, 10, 512).blocks, 4096 / 8);
  EXPECT_EQ(care_for(options, Asking::kGroup, {1, 8}, HeadKind::kWide, 40, 512).blocks, 20480 / 2 / 8);
  EXPECT_EQ(care_for(options, Asking::kGroup, {1, 8}, HeadKind::kWide, 64, 512).blocks, 32768 / 2 / 8);
  EXPECT_EQ(care_for(options, Asking::kGroup, {1, 8}, HeadKind::kWide, 192, 512).blocks, (32768 + 65536 / 4) / 2 / 8);
  EXPECT_EQ(care_for(options, Asking::kGroup, {1, 8}, HeadKind::kResting, 100, 512).blocks, 0);
  // Never fewer than are read.
  options.early_share = 4;
  EXPECT_EQ(care_for(options, Asking::kGroup, {0, 8}, HeadKind::kWide, 192, 512).blocks,
            2 * (32768 + 65536 / 2) / 4 / 8);
  options.base_budget = 4096;
  EXPECT_EQ(care_for(options, Asking::kGroup, {1, 8}, HeadKind::kWide, 40, 512).blocks, 3 * 4096 / 8);
}

}  // namespace
}  // namespace ei::policy
