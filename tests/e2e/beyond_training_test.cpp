// Prompts far beyond the length that the embedded model was trained for, its rotation stretched: minutes, so the label
// is slow. What must hold is that they run to the end in bounded memory; whether the fact is still found is printed.
#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "process.h"

namespace ei::e2e {
namespace {

using nlohmann::json;

class BeyondTraining : public ::testing::TestWithParam<int> {};

TEST_P(BeyondTraining, APromptRunsToItsEnd) {
  constexpr int64_t kTrained = 131072;
  constexpr int64_t kPeakOfOne = 700;  // MiB: what a prompt of the trained length takes, and a tenth
  const int64_t tokens = GetParam() * kTrained;
  const Outcome outcome =
      run(Invocation{.arguments = {"demo", "--tokens", std::to_string(tokens - 256), "-c", std::to_string(tokens),
                                   "--rope-scaling", "yarn", "--rope-scale", std::to_string(GetParam()),
                                   "--yarn-orig-ctx", std::to_string(kTrained), "--method", "entropyinfer", "--json"},
                     .limit_s = 14400});
  const json object = json::parse(outcome.out, nullptr, false);
  ASSERT_FALSE(object.is_discarded()) << outcome.err;
  const json& one = object["runs"][0];
  EXPECT_EQ(object["demo"]["interrupted"], false);
  EXPECT_GT(one["tokens"]["prompt"], tokens * 9 / 10);
  EXPECT_GT(one["tokens"]["generated"], 0);
  EXPECT_LT(one["prefill"]["density"], 0.09);
  EXPECT_LT(one["memory"]["peak_rss_bytes"].get<int64_t>() >> 20, kPeakOfOne * GetParam());
  std::printf("%lld tokens: %.0f s, density %.3f, peak %lld MiB, answer %s (%s)\n",
              static_cast<long long>(one["tokens"]["prompt"].get<int64_t>()),
              one["timings"]["prompt_ms"].get<double>() / 1000, one["prefill"]["density"].get<double>(),
              static_cast<long long>(one["memory"]["peak_rss_bytes"].get<int64_t>() >> 20),
              one["text"].get<std::string>().c_str(), object["demo"]["right"].get<bool>() ? "right" : "wrong");
}

INSTANTIATE_TEST_SUITE_P(Lengths, BeyondTraining, ::testing::Values(2, 4, 8));

}  // namespace
}  // namespace ei::e2e
