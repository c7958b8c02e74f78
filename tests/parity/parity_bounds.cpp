#include "parity/parity_bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/result.h"
#include "engine/memory.h"
#include "parity/llama_oracle.h"

namespace ei::testing {
namespace {

void widen(LogitsGap& own, const LogitsGap& by) {
  own.relative = std::max(own.relative, by.relative);
  own.kl_divergence = std::max(own.kl_divergence, by.kl_divergence);
  own.mean_divergence = std::max(own.mean_divergence, by.mean_divergence);
  own.spread_error = std::max(own.spread_error, by.spread_error);
  own.beyond = std::max(own.beyond, by.beyond);
  own.rows = by.rows;
}

}  // namespace

LibllamaReading read_with_libllama(const std::string& path, std::span<const int32_t> tokens, bool f32_cache) {
  const auto count = static_cast<int>(tokens.size());
  const OracleSetup usual{.context = count + 64, .f32_cache = f32_cache};
  OracleSetup flash = usual;
  flash.flash = true;
  OracleSetup together = usual;
  together.threads = 2;
  const std::unique_ptr<LlamaOracle> oracle = LlamaOracle::load(path, usual);
  EI_CHECK(oracle != nullptr);
  const int64_t vocab = oracle->vocab();
  LibllamaReading reading{.logits = oracle->evaluate(tokens), .own = {}};
  const auto compare = [&](const std::vector<float>& other) {
    widen(reading.own, compare_logits(other, std::span(reading.logits).first(other.size()), vocab, kFloatNoise));
  };
  compare(oracle->evaluate(tokens, count > 1000 ? 100 : 7));
  const auto few = std::min(tokens.size(), size_t{40});  // two threads may have one core here
  for (const auto& [setup, read] : {std::pair(flash, tokens), std::pair(together, tokens.first(few))}) {
    const std::unique_ptr<LlamaOracle> other = LlamaOracle::load(path, setup);
    EI_CHECK(other != nullptr);
    compare(other->evaluate(read));
  }
  record("libllama_from_itself", reading.own);
  return reading;
}

Allowed allowed(const LogitsGap& own, Rounding rounding, double times_its_mean) {
  const bool bf16 = rounding == Rounding::kBf16;
  if (rounding == Rounding::kBlocks)
    return {.worst = kTimesItsWorstByBlocks * own.kl_divergence, .mean = kTimesItsMeanByBlocks * own.mean_divergence};
  return {.worst = kTimesItsWorst * own.kl_divergence + (bf16 ? kWorstDivergence : 0),
          .mean = times_its_mean * own.mean_divergence + (bf16 ? kMeanDivergence : 0)};
}

Allowed allowed_from_exact(const LogitsGap& theirs, Rounding rounding) {
  if (rounding == Rounding::kBf16) return {.worst = kWorstDivergence, .mean = kMeanDivergence};
  const double times = rounding == Rounding::kBlocks ? kTimesFromExactByBlocks : kTimesFromExact;
  return {.worst = times * theirs.kl_divergence, .mean = times * theirs.mean_divergence};
}

bool multiplies_blocks(const Engine& engine) {
  return backend_detail(engine.file(), engine.backend(), DType::kF32, DType::kF32).find("in int8 for prompts") !=
         std::string::npos;
}

void expect_within(const LogitsGap& gap, const Allowed& allowed) {
  EXPECT_LE(gap.kl_divergence, allowed.worst);
  EXPECT_LE(gap.mean_divergence, allowed.mean);
  EXPECT_EQ(gap.top_differs, 0);
}

double noise_of(std::string_view type) {
  if (type == "F32") return kFloatNoise;
  return type == "F16" || type == "BF16" ? kHalfNoise : kQuantisedNoise;
}

double noise_of(std::string_view type, const LogitsGap& own) {
  return type == "F32" ? kFloatNoise : std::max(noise_of(type), 2 * own.spread_error);
}

void record(const std::string& name, const LogitsGap& gap) {
  ::testing::Test::RecordProperty(
      name, str_format("kl=%.2g mean=%.2g relative=%.2g spread=%.2g beyond=%lld judged=%lld/%lld", gap.kl_divergence,
                       gap.mean_divergence, gap.relative, gap.spread_error, static_cast<long long>(gap.beyond),
                       static_cast<long long>(gap.judged), static_cast<long long>(gap.rows)));
}

}  // namespace ei::testing
