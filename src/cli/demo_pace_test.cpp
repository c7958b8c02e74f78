#include "cli/demo_pace.h"

#include <gtest/gtest.h>

namespace ei::cli {
namespace {

TEST(DemoPace, CountsEveryPairOfTokensOnce) {
  const DemoPace pace{.token_s = 1e-3, .pair_s = 2e-6};
  EXPECT_DOUBLE_EQ(pace.seconds(1000), 1 + 1);
  EXPECT_DOUBLE_EQ(pace.seconds(2000), 2 + 4);
}

TEST(DemoPace, AQuickMachineReadsTheWholeText) {
  EXPECT_EQ(patient_tokens({.token_s = 1e-4, .pair_s = 3e-8}), kDemoTokens);
}

TEST(DemoPace, ASlowMachineReadsWhatItCanInTwoMinutes) {
  const DemoPace slow{.token_s = 2e-3, .pair_s = 6e-7};
  EXPECT_GT(slow.seconds(16384), kDemoPatienceSeconds - 10);
  EXPECT_EQ(patient_tokens(slow), 16384);
  EXPECT_LE(slow.seconds(patient_tokens(slow)), kDemoPatienceSeconds);
  EXPECT_GT(slow.seconds(2 * patient_tokens(slow)), kDemoPatienceSeconds);
}

TEST(DemoPace, TheTextNeverGetsShorterThanWhatWasTimed) {
  EXPECT_EQ(patient_tokens({.token_s = 10, .pair_s = 1}), kTimedTokens);
}

}  // namespace
}  // namespace ei::cli
