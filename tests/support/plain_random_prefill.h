// random-prefill by the words of docs/methods.md: any blocks before the segment, drawn anew in every segment and layer,
// of equal chance, the same for all heads of a layer. Which ones they are is nobody's to say: here is how many, what
// each list must be, and how often chance has what many of them show.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <set>
#include <vector>

#include "policy/prefill/method.h"

namespace ei::testing {

// The lists of one layer, of a prompt that ends at `tokens`. The records keep their blocks.
inline void expect_random_lists(const policy::PrefillOptions& options, int64_t tokens,
                                const policy::LayerRecords& records) {
  for (const policy::SegmentRecord& record : records) {
    SCOPED_TRACE(::testing::Message() << "segment " << record.segment);
    const int64_t begin = int64_t{record.segment} * options.segment;
    const bool last = begin + options.segment >= tokens;
    ASSERT_EQ(record.dense, begin == 0 || begin < options.threshold || (last && options.last_dense));
    const auto earlier = static_cast<int32_t>(begin / options.block);
    for (const policy::HeadRecord& head : record.heads) {
      EXPECT_EQ(head.blocks, record.dense ? earlier : std::min(earlier, options.base_budget / options.block));
      if (record.dense) continue;
      EXPECT_EQ(head.chosen, record.heads.front().chosen) << "the same for all heads";
      const std::set<int32_t> drawn(head.chosen.begin(), head.chosen.end());
      EXPECT_EQ(head.chosen, std::vector<int32_t>(drawn.begin(), drawn.end())) << "ascending, none twice";
      EXPECT_EQ(static_cast<int32_t>(drawn.size()), head.blocks);
      for (const int32_t block : drawn) EXPECT_TRUE(0 <= block && block < earlier) << block;
    }
  }
}

// Something that happens now and then, each time by its own chance.
class Chance {
 public:
  void add(double happened, double expected, double variance) {
    happened_ += happened;
    expected_ += expected;
    variance_ += variance;
  }
  void add(bool happened, double chance) { add(happened ? 1 : 0, chance, chance * (1 - chance)); }
  // By how many standard deviations it was more often than chance has it.
  double deviations() const { return variance_ > 0 ? (happened_ - expected_) / std::sqrt(variance_) : 0; }

 private:
  double happened_ = 0;
  double expected_ = 0;
  double variance_ = 0;
};

// Of two lists of `a` and `b` blocks among `earlier`, drawn each for itself, how many blocks stand in both?
inline void add_common(Chance& common, const std::vector<int32_t>& a, const std::vector<int32_t>& b, int32_t earlier) {
  std::vector<int32_t> both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  const double n = earlier;
  const double share = static_cast<double>(a.size()) / n;
  const double mean = share * static_cast<double>(b.size());
  if (earlier < 2) return;
  common.add(static_cast<double>(both.size()), mean,
             mean * (1 - share) * (n - static_cast<double>(b.size())) / (n - 1));
}

}  // namespace ei::testing
