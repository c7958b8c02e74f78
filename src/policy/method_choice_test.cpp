#include "policy/method_choice.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace ei::policy {
namespace {

using Options = std::map<std::string, std::string>;

MethodChoice entropyinfer(const Options& options) { return {.method = "entropyinfer", .options = options}; }

TEST(MethodChoice, RefusesTwoWaysToSayHowMuchIsRead) {
  EXPECT_FALSE(prefill_options(entropyinfer({{"density", "0.1"}, {"base-budget", "512"}})).ok());
  EXPECT_TRUE(prefill_options(entropyinfer({{"density", "0.1"}, {"base-budget", "0"}})).ok());
  EXPECT_EQ(prefill_options(entropyinfer({{"base-budget", "512"}}))->base_budget, 512);
}

TEST(MethodChoice, WhatARequestSaysOfHowMuchIsReadTakesThePlaceOfWhatTheServerSays) {
  MethodChoice choice = entropyinfer({{"density", "0.1"}, {"density-base", "64"}, {"segment", "256"}});
  give_on_top(choice, {{"base-budget", "512"}});
  EXPECT_EQ(choice.options, (Options{{"base-budget", "512"}, {"segment", "256"}}));
  give_on_top(choice, {{"density", "0.2"}});
  EXPECT_EQ(choice.options, (Options{{"density", "0.2"}, {"segment", "256"}}));
  give_on_top(choice, {{"base-budget", "0"}});
  EXPECT_EQ(prefill_options(choice)->density, 0.2);
  give_on_top(choice, {{"density", "0.3"}, {"base-budget", "512"}});
  EXPECT_FALSE(prefill_options(choice).ok()) << "a request that contradicts itself";
}

}  // namespace
}  // namespace ei::policy
