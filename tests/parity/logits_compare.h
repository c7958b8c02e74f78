// How close two sets of logits are: the figures that parity is stated in (docs/numerics.md).
#pragma once

#include <cstdint>
#include <span>

namespace ei::testing {

struct LogitsGap {
  double relative = 0;       // worst row: max |a - b| / max |b|
  double kl_divergence = 0;  // worst row: KL(b || a)
  double mean_divergence = 0;
  double spread_error = 0;  // worst row: max |a - b| / standard deviation of b
  int64_t beyond = 0;       // rows whose KL divergence is above 1e-3
  int64_t judged = 0;       // rows whose best token leads by more than the noise
  int64_t top_differs = 0;  // of these, where a has another best token
  int64_t rows = 0;
};

// Standard deviation of a row.
double spread_of(std::span<const float> row);

// a: ours, b: the oracle's; both [rows, vocab]. `noise`: the lead, in standard deviations of b's row, above which b's
// best token is beyond doubt. It is given, not taken from the rows: what was measured cannot excuse itself.
LogitsGap compare_logits(std::span<const float> a, std::span<const float> b, int64_t vocab, double noise);

}  // namespace ei::testing
