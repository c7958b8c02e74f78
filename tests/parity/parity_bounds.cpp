#include "parity/parity_bounds.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/check.h"
#include "base/result.h"

namespace ei::testing {
namespace {

#ifdef EI_PORTABLE  // chooses from more of ggml's kernels; 5.8e-5 was seen
constexpr double kF16 = 1e-4;
#else
constexpr double kF16 = 3e-5;
#endif

struct TypeBounds {
  std::string_view type;
  ParityBounds bounds;
};
constexpr TypeBounds kTypes[] = {
    {"F32", {.ggml_short = 1e-10, .ggml = 1e-10, .provider = 1e-10, .by_default = 3e-4}},
    {"F16", {.ggml_short = kF16, .ggml = kF16, .provider = 5e-4, .by_default = 1e-3}},
    {"BF16", {.ggml_short = 2e-4, .ggml = 2e-4, .provider = 2e-4, .by_default = 8e-4}},
    {"Q8_0", {.ggml_short = kWorstDivergence, .ggml = 4e-3, .provider = 4e-3, .by_default = 6e-3}},
    {"Q4_0", {.ggml_short = kWorstDivergence, .ggml = 4e-3, .provider = 4e-3, .by_default = 4e-3}},
    {"Q4_K", {.ggml_short = 2.5e-3, .ggml = 4e-3, .provider = 8e-3, .by_default = 1.2e-2}},
    {"Q6_K", {.ggml_short = 2.5e-3, .ggml = 5e-3, .provider = 8e-3, .by_default = 1.2e-2}},
};
constexpr double kGemma = 5e-5;  // its logits are far apart: nothing moves their probabilities much

}  // namespace

double noise_of(std::string_view type) {
  if (type == "F32") return kFloatNoise;
  return type == "F16" || type == "BF16" ? kHalfNoise : kQuantisedNoise;
}

ParityBounds bounds_of(std::string_view family, std::string_view type) {
  const auto* found =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto& row) { return row.type == type; });
  EI_CHECK(found != std::end(kTypes));
  ParityBounds bounds = found->bounds;
  if (family == "gemma3") {
    for (double* bound : {&bounds.ggml_short, &bounds.ggml, &bounds.provider, &bounds.by_default})
      *bound = std::min(*bound, kGemma);
  }
  return bounds;
}

void record(const std::string& name, const LogitsGap& gap) {
  ::testing::Test::RecordProperty(
      name, str_format("kl=%.2g mean=%.2g relative=%.2g spread=%.2g beyond=%lld judged=%lld/%lld", gap.kl_divergence,
                       gap.mean_divergence, gap.relative, gap.spread_error, static_cast<long long>(gap.beyond),
                       static_cast<long long>(gap.judged), static_cast<long long>(gap.rows)));
}

}  // namespace ei::testing
