#include "server/scheduler/pass_shares.h"

#include <gtest/gtest.h>

#include <vector>

namespace ei::server {
namespace {

OwnTime own(double seconds) { return {.cpu_s = seconds, .wall_s = seconds}; }
bool joins(const PassShares& shares, double first, double other) {
  return PassShares::Guests(shares, own(first)).joins(own(other));
}

TEST(PassShares, EachIsChargedWithTheWholePassWhereNobodyIsDear) {
  PassShares shares;
  const std::vector<OwnTime> three = {own(0.001), own(0.001), own(0.002)};
  shares.took(0.014, three);
  for (const OwnTime& one : three) EXPECT_DOUBLE_EQ(shares.charge(one, 0.5), 0.007);
  EXPECT_TRUE(joins(shares, 0.001, 0.002));
}

TEST(PassShares, WhatIsDearIsChargedToWhoCausedIt) {
  PassShares shares;
  const std::vector<OwnTime> two = {own(0.0001), own(0.08)};
  shares.took(0.0831, two);
  EXPECT_NEAR(shares.charge(two[0], 0.5), 0.00155, 1e-9);
  EXPECT_NEAR(shares.charge(two[1], 0.5), 0.08155, 1e-9);
  EXPECT_FALSE(joins(shares, 0.0001, 0.08)) << "not before its turn";
  EXPECT_TRUE(joins(shares, 0.08, 0.0001)) << "then with all others";
  EXPECT_TRUE(joins(shares, 0.0001, 0.001)) << "as soon as it is cheap again";
}

TEST(PassShares, DearOnesGoTogetherAsFarAsTheyTakeNoLonger) {
  PassShares shares;
  shares.took(0.003, std::vector<OwnTime>{own(0)});
  EXPECT_FALSE(joins(shares, 0.08, 0.07)) << "one worker: one after the other";
  shares.saw(3);
  PassShares::Guests guests(shares, own(0.08));
  EXPECT_TRUE(guests.joins(own(0.08)));
  EXPECT_FALSE(guests.joins(own(0.09))) << "longer than the first";
  EXPECT_TRUE(guests.joins(own(0.08)));
  EXPECT_FALSE(guests.joins(own(0.08))) << "no worker is left";
  EXPECT_TRUE(guests.joins(own(0.0001)));
  const std::vector<OwnTime> three = {own(0.08), own(0.08), own(0.08)};
  shares.took(0.083, three);
  EXPECT_NEAR(shares.charge(three[0], 1), 0.083, 1e-9);
}

TEST(PassShares, WhereOtherProgramsRunTheDearStayDear) {
  PassShares shares;
  shares.took(0.003, std::vector<OwnTime>{own(0)});
  const OwnTime slowed = {.cpu_s = 0.08, .wall_s = 0.32};
  shares.took(0.33, std::vector<OwnTime>{slowed, own(0.0001)});
  EXPECT_FALSE(joins(shares, 0.0001, 0.08));
  EXPECT_NEAR(shares.charge(own(0.0001), 1), 0.01, 1e-9);
  EXPECT_NEAR(shares.charge(slowed, 1), 0.33, 1e-9);
  const OwnTime held_up = {.cpu_s = 0.0001, .wall_s = 0.02};
  EXPECT_TRUE(PassShares::Guests(shares, own(0.0001)).joins(held_up)) << "by others, and through no work of its own";
  // Samplers beside each other, where none had been seen beside another: nobody becomes dear for good.
  shares.took(0.081, std::vector<OwnTime>{own(0.08), own(0.08)});
  for (int i = 0; i < 10; ++i) shares.took(0.003, std::vector<OwnTime>{own(0.0005)});
  EXPECT_TRUE(joins(shares, 0.0001, 0.001));
}

TEST(PassShares, TheSamplersOfAPassHaveSoMuchTimeTogether) {
  SamplingTime time;
  ASSERT_TRUE(time.begin());
  ASSERT_TRUE(time.begin());
  time.end(SamplingTime::kMost / 2);
  EXPECT_TRUE(time.begin());
  time.end(SamplingTime::kMost);
  EXPECT_FALSE(time.begin());
  EXPECT_EQ(time.most_at_once(), 2);
}

}  // namespace
}  // namespace ei::server
