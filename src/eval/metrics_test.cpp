#include "eval/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"

namespace ei::eval {
namespace {

TEST(RunningMean, GivesMeanAndStandardError) {
  RunningMean mean;
  EXPECT_EQ(mean.standard_error(), 0);
  for (double x : {2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0}) mean.add(x);
  EXPECT_EQ(mean.count(), 8);
  EXPECT_NEAR(mean.mean(), 5.0, 1e-12);
  EXPECT_NEAR(mean.standard_error(), std::sqrt(32.0 / 7.0 / 8.0), 1e-12);  // squared distances sum to 32
}

TEST(Perplexity, IsTheNumberOfEquallyLikelyTokens) {
  Perplexity ppl;
  for (int i = 0; i < 10; ++i) ppl.add(std::log(50.0));
  EXPECT_NEAR(ppl.value(), 50.0, 1e-9);
  EXPECT_NEAR(ppl.error(), 0.0, 1e-9);
}

TEST(Perplexity, ReportsTheFirstOrderError) {
  Perplexity ppl;
  ppl.add(1.0);
  ppl.add(3.0);
  EXPECT_NEAR(ppl.value(), std::exp(2.0), 1e-12);
  EXPECT_NEAR(ppl.error(), std::exp(2.0) * 1.0, 1e-12);  // deviation sqrt(2), error sqrt(2) / sqrt(2)
}

TEST(LogSoftmax, AgreesWithHandComputedValues) {
  const std::vector<float> logits = {0.0F, std::log(2.0F), std::log(5.0F)};
  const auto logs = log_softmax(logits);
  EXPECT_NEAR(std::exp(logs[0]), 0.125, 1e-7);
  EXPECT_NEAR(std::exp(logs[1]), 0.25, 1e-7);
  EXPECT_NEAR(std::exp(logs[2]), 0.625, 1e-7);
  EXPECT_NEAR(negative_log_likelihood(logits, 1), std::log(4.0), 1e-7);
}

TEST(LogSoftmax, SurvivesHugeLogitsAndMaskedTokens) {
  const auto logs = log_softmax(std::vector<float>{5000.0F, 5000.0F, -INFINITY});
  EXPECT_NEAR(logs[0], -std::log(2.0), 1e-9);
  EXPECT_EQ(logs[2], -INFINITY);
}

TEST(TopToken, IsTheFirstOfEquals) { EXPECT_EQ(top_token(std::vector<float>{1.0F, 3.0F, 3.0F, 2.0F}), 1); }

TEST(KlDivergence, AgreesWithHandComputedValues) {
  const std::vector<float> p = {std::log(3.0F), 0.0F};  // 3/4, 1/4
  const std::vector<float> q = {7.0F, 7.0F};            // 1/2, 1/2
  EXPECT_NEAR(kl_divergence(p, q), 0.75 * std::log(1.5) + 0.25 * std::log(0.5), 1e-7);
  EXPECT_NEAR(kl_divergence(q, p), 0.5 * std::log(0.5 / 0.75) + 0.5 * std::log(0.5 / 0.25), 1e-7);
}

TEST(KlDivergence, IsZeroForEqualRowsAndNeverNegative) {
  constexpr uint64_t kSeed = 3;
  Random random(kSeed);
  for (int round = 0; round < 100; ++round) {
    std::vector<float> p(50);
    std::vector<float> q(50);
    for (float& x : p) x = 4 * random.normal();
    for (float& x : q) x = 4 * random.normal();
    EXPECT_NEAR(kl_divergence(p, p), 0, 1e-12) << "seed " << kSeed << " round " << round;
    EXPECT_GT(kl_divergence(p, q), 0) << "seed " << kSeed << " round " << round;
  }
}

TEST(KlDivergence, IgnoresTokensTheReferenceMasks) {
  const std::vector<float> p = {0.0F, -INFINITY};
  const std::vector<float> q = {0.0F, 0.0F};
  EXPECT_NEAR(kl_divergence(p, q), std::log(2.0), 1e-9);
}

TEST(Divergence, CountsRowsWithTheSameTopToken) {
  Divergence divergence;
  const std::vector<float> a = {2.0F, 1.0F};
  const std::vector<float> b = {1.0F, 2.0F};
  divergence.add(a, a);
  divergence.add(a, b);
  EXPECT_EQ(divergence.same_top().mean(), 0.5);
  EXPECT_NEAR(divergence.kl().mean(), kl_divergence(a, b) / 2, 1e-12);
}

}  // namespace
}  // namespace ei::eval
