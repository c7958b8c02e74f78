// Divergence by position: where in a text, or how far behind a prompt, a method begins to stray.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "eval/metrics.h"

namespace ei::eval {

struct PositionBucket {
  int64_t first = 0;  // positions [first, end)
  int64_t end = 0;
  Divergence divergence{};
  int64_t compressed = 0;  // of its rows, those computed over a compressed cache
};

// Buckets that lie side by side and leave no position out.
class PositionBuckets {
 public:
  PositionBuckets() = default;
  // `count` buckets of equal width, to a position; fewer where there are fewer positions.
  static PositionBuckets even(int64_t first, int64_t end, int64_t count);
  // The first `least` positions, as many again, twice as many, and so on: close behind a prompt more happens.
  static PositionBuckets doubling(int64_t first, int64_t end, int64_t least);

  // Positions outside of all buckets are a bug.
  void add(int64_t position, std::span<const float> reference, std::span<const float> tested, bool compressed);

  const std::vector<PositionBucket>& all() const { return buckets_; }

 private:
  std::vector<PositionBucket> buckets_;
};

}  // namespace ei::eval
