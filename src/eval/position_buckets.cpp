#include "eval/position_buckets.h"

#include <algorithm>

#include "base/check.h"

namespace ei::eval {

PositionBuckets PositionBuckets::even(int64_t first, int64_t end, int64_t count) {
  PositionBuckets made;
  const int64_t positions = std::max<int64_t>(end - first, 0);
  const int64_t buckets = std::min(count, positions);
  for (int64_t i = 0; i < buckets; ++i)
    made.buckets_.push_back({.first = first + positions * i / buckets, .end = first + positions * (i + 1) / buckets});
  return made;
}

PositionBuckets PositionBuckets::doubling(int64_t first, int64_t end, int64_t least) {
  PositionBuckets made;
  int64_t width = least;
  for (int64_t at = first; at < end;) {
    const int64_t next = std::min(at + width, end);
    made.buckets_.push_back({.first = at, .end = next});
    if (at > first) width *= 2;
    at = next;
  }
  return made;
}

void PositionBuckets::add(int64_t position, std::span<const float> reference, std::span<const float> tested,
                          bool compressed) {
  const auto bucket =
      std::find_if(buckets_.begin(), buckets_.end(), [&](const PositionBucket& one) { return position < one.end; });
  EI_CHECK(bucket != buckets_.end() && position >= bucket->first);
  bucket->divergence.add(reference, tested);
  bucket->compressed += compressed ? 1 : 0;
}

}  // namespace ei::eval
