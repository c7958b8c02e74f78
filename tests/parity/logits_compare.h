// How close two sets of logits are: the figures that parity is stated in (docs/numerics.md).
#pragma once

#include <cstdint>
#include <span>

namespace ei::testing {

struct LogitsGap {
  double relative = 0;       // worst row: max |a - b| / max |b|
  double kl_divergence = 0;  // worst row: KL(b || a)
  double mean_divergence = 0;
  int64_t top_differs = 0;  // rows whose best token differs although b's lead is above the rows' noise
  int64_t rows = 0;
};

// a: ours, b: the oracle's; both [rows, vocab].
LogitsGap compare_logits(std::span<const float> a, std::span<const float> b, int64_t vocab);

}  // namespace ei::testing
