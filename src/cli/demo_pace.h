// How long the demo's text takes on this machine: a short text is read and timed, a longer one foretold from it.
#pragma once

#include <cstdint>

#include "base/cancel.h"
#include "base/result.h"
#include "cli/settings.h"
#include "engine/engine.h"

namespace ei::cli {

// Time to read n tokens with full attention: products take as long for every token, attention grows with those before.
struct DemoPace {
  double token_s = 0;  // a token without attention
  double pair_s = 0;   // attention of a token to one before it

  double seconds(int64_t tokens) const {
    const auto n = static_cast<double>(tokens);
    return token_s * n + pair_s * n * n / 2;
  }
};

inline constexpr int64_t kDemoTokens = 32768;
inline constexpr double kDemoPatienceSeconds = 120;
inline constexpr int64_t kTimedTokens = 2048;

// Reads kTimedTokens tokens with full attention.
Result<DemoPace> measure_pace(const Engine& engine, const Settings& settings, const CancelToken& cancel);

// The longest text, kDemoTokens halved as often as needed, that full attention reads in kDemoPatienceSeconds; at least
// kTimedTokens.
int64_t patient_tokens(const DemoPace& pace);

}  // namespace ei::cli
