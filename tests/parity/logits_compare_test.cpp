// The comparison that parity rests on must be able to fail.
#include "parity/logits_compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"

namespace ei::testing {
namespace {

constexpr int64_t kVocab = 200;
constexpr double kNoise = 0.1;

// One row of unit spread whose token 7 leads token 8 by `lead`, and all others by far more.
std::vector<float> row_with_lead(float lead) {
  Random random(5);
  std::vector<float> row;
  for (int64_t i = 0; i < kVocab; ++i) row.push_back(std::fmin(2.0f, random.normal()));
  row[7] = 4.0f;
  row[8] = 4.0f - lead;
  return row;
}

TEST(CompareLogits, EqualRowsHaveNoGap) {
  const std::vector<float> row = row_with_lead(1);
  const LogitsGap gap = compare_logits(row, row, kVocab, kNoise);
  EXPECT_EQ(gap.rows, 1);
  EXPECT_EQ(gap.judged, 1);
  EXPECT_EQ(gap.top_differs, 0);
  EXPECT_EQ(gap.relative, 0);
  EXPECT_EQ(gap.spread_error, 0);
  EXPECT_NEAR(gap.kl_divergence, 0, 1e-12);
}

// The error that swaps the tokens is itself as large as the lead: it must not hide the swap.
TEST(CompareLogits, AnotherTopTokenAtAClearLeadCounts) {
  for (const float lead : {0.2f, 1.0f, 3.0f}) {
    const std::vector<float> theirs = row_with_lead(lead);
    std::vector<float> ours = theirs;
    std::swap(ours[7], ours[8]);
    const LogitsGap gap = compare_logits(ours, theirs, kVocab, kNoise);
    EXPECT_EQ(gap.judged, 1) << lead;
    EXPECT_EQ(gap.top_differs, 1) << lead;
  }
}

TEST(CompareLogits, ATieWithinTheNoiseIsNotJudged) {
  const std::vector<float> theirs = row_with_lead(0.05f);
  std::vector<float> ours = theirs;
  std::swap(ours[7], ours[8]);
  const LogitsGap gap = compare_logits(ours, theirs, kVocab, kNoise);
  EXPECT_EQ(gap.rows, 1);
  EXPECT_EQ(gap.judged, 0);
  EXPECT_EQ(gap.top_differs, 0);
  EXPECT_GT(gap.kl_divergence, 0);
}

TEST(CompareLogits, OneBadRowOfManyShowsInEveryFigure) {
  std::vector<float> theirs;
  for (int i = 0; i < 50; ++i) {
    const std::vector<float> row = row_with_lead(1);
    theirs.insert(theirs.end(), row.begin(), row.end());
  }
  std::vector<float> ours = theirs;
  ours[30 * kVocab + 8] += 2;
  const LogitsGap gap = compare_logits(ours, theirs, kVocab, kNoise);
  EXPECT_EQ(gap.rows, 50);
  EXPECT_EQ(gap.top_differs, 1);
  EXPECT_GT(gap.kl_divergence, 0.1);
  EXPECT_NEAR(gap.mean_divergence, gap.kl_divergence / 50, 1e-9);
  EXPECT_NEAR(gap.relative, 0.5, 1e-6);
  EXPECT_GT(gap.spread_error, 1.5);
}

TEST(CompareLogits, WhatIsNoNumberIsAsFarAsCanBe) {
  const std::vector<float> theirs = row_with_lead(1);
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    for (const size_t at : {size_t{0}, size_t{7}}) {
      std::vector<float> ours = theirs;
      ours[at] = bad;
      const LogitsGap gap = compare_logits(ours, theirs, kVocab, kNoise);
      EXPECT_GT(gap.relative, 1e20) << bad << " at " << at;
      EXPECT_GT(gap.kl_divergence, 1e-3) << bad << " at " << at;
    }
  }
}

}  // namespace
}  // namespace ei::testing
