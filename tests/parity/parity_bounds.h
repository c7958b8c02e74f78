// What parity is held to, and how a test leaves the figures it saw (docs/numerics.md, "Parity with libllama").
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "parity/logits_compare.h"

namespace ei::testing {

// Where exactness is promised.
inline constexpr double kWorstRelative = 1e-4;  // F32 weights, F32 cache

// What rounding to bf16 may cost on any CPU, products and cache together, against exact arithmetic: KL divergence at
// the worst position and in the mean.
inline constexpr double kWorstDivergence = 1e-3;
inline constexpr double kMeanDivergence = 3.5e-4;

// Everything else is held to libllama's distance to itself, measured on this machine with the same file and tokens:
// read in other pieces, with flash attention, with two threads.
inline constexpr double kTimesItsWorst = 4;          // one position of hundreds: much chance is in it
inline constexpr double kTimesItsMean = 1;           // the same products, caches in f32 on both sides
inline constexpr double kTimesItsMeanByDefault = 2;  // what each side chooses
inline constexpr double kTimesFromExact = 2;         // how far from exact arithmetic libllama is itself
// Blocks of eight bits: both sides round to them, each at places of its own; and ours round weights that are not Q8_0
// as well as activations, which costs as much again.
inline constexpr double kTimesItsWorstByBlocks = 6;
inline constexpr double kTimesItsMeanByBlocks = 4;
inline constexpr double kTimesFromExactByBlocks = 3;

struct LibllamaReading {
  std::vector<float> logits;  // [tokens, vocab]
  LogitsGap own;              // the largest of each figure, of its other ways to read to this one
};
LibllamaReading read_with_libllama(const std::string& path, std::span<const int32_t> tokens, bool f32_cache);

struct Allowed {
  double worst = 0;  // KL divergence
  double mean = 0;
};
enum class Rounding { kAsLibllama, kBf16, kBlocks };
Allowed allowed(const LogitsGap& own, Rounding rounding, double times_its_mean);
// From exact arithmetic on the same weights; `theirs`: libllama's distance to that.
Allowed allowed_from_exact(const LogitsGap& theirs, Rounding rounding);
// Are the engine's prompts multiplied in blocks of eight bits, by kernels of our own?
bool multiplies_blocks(const Engine& engine);
void expect_within(const LogitsGap& gap, const Allowed& allowed);

// Leads above which a top token is beyond doubt, in standard deviations of the row, unless libllama differs from itself
// by more than half of it.
inline constexpr double kFloatNoise = 1e-3;      // F32
inline constexpr double kHalfNoise = 0.1;        // F16, BF16, and F32 over a cache of 16 bits
inline constexpr double kQuantisedNoise = 0.25;  // activations rounded to eight bits on one side at least
double noise_of(std::string_view type);
double noise_of(std::string_view type, const LogitsGap& own);

// Weight types that every family is tested with; the others on one family.
inline constexpr const char* kFamilyTypes[] = {"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_K", "Q6_K"};

// Leaves the figures in the report that --gtest_output=xml:FILE writes.
void record(const std::string& name, const LogitsGap& gap);

}  // namespace ei::testing
