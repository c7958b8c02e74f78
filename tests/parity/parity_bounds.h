// What parity is held to, and how a test leaves the figures it saw (docs/numerics.md, "Parity with libllama").
#pragma once

#include <string>
#include <string_view>

#include "parity/logits_compare.h"

namespace ei::testing {

// The contract. Where rounding on either side makes a position exceed it, the bounds below are what was measured and a
// margin, and the strict one is tested where it holds.
inline constexpr double kWorstRelative = 1e-4;    // F32 weights, F32 cache
inline constexpr double kWorstDivergence = 1e-3;  // everything else, per position

// Leads above which a top token is beyond doubt, in standard deviations of the row: above the largest difference of a
// single logit that was measured for such weights (7e-4, 0.053, 0.18).
inline constexpr double kFloatNoise = 1e-3;      // F32
inline constexpr double kHalfNoise = 0.1;        // F16, BF16, and F32 over a cache of 16 bits
inline constexpr double kQuantisedNoise = 0.25;  // activations rounded to eight bits on one side at least
double noise_of(std::string_view type);

// Worst KL divergence to libllama at any position.
struct ParityBounds {
  double ggml_short = 0;  // the same products, caches in f32: the first kShortTokens positions
  double ggml = 0;        // all 4097
  double provider = 0;    // prompts multiplied in bf16, caches in f32
  double by_default = 0;  // whatever is chosen for this machine, caches as both choose them
};
inline constexpr int64_t kShortTokens = 513;
ParityBounds bounds_of(std::string_view family, std::string_view type);

// Weight types that every family is tested with; the others on one family.
inline constexpr const char* kFamilyTypes[] = {"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_K", "Q6_K"};

// Leaves the figures in the report that --gtest_output=xml:FILE writes.
void record(const std::string& name, const LogitsGap& gap);

}  // namespace ei::testing
