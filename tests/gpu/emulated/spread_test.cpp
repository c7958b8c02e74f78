// Over how many slots ratings spread, thread by thread on the host, against the reference.
#include "kernels/window_scores/cuda/spread.cuh"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "base/random.h"
#include "kernels/window_scores/reference/slot_choice_reference.h"

namespace ei::kernels::cuda {
namespace {

TEST(Spread, IsTheReferencesOverOddSizes) {
  Random random(3);
  for (const int64_t slots : {0, 3, 4, 5, 255, 256, 261, 5003}) {
    for (const float sharpness : {0.1f, 2.0f, 9.0f}) {
      std::vector<float> ratings(static_cast<size_t>(slots));
      for (float& one : ratings) one = random.below(5) == 0 ? 0.0f : std::exp(sharpness * random.normal());
      const std::vector<int64_t> sets = {slots};
      float expected = -1;
      reference_spread_slots({.ratings = ratings.data(), .slots = sets, .first = 4, .spreads = &expected});
      const auto shared = std::make_unique<SpreadShared>();
      float spread = -1;
      emulated::Block::run(kSpreadThreads, [&] {
        const float one = spread_of_ratings(*shared, ratings.data(), 4, slots);
        if (threadIdx.x == 0) spread = one;
      });
      EXPECT_NEAR(spread, expected, 1e-4 * static_cast<double>(expected)) << slots << " slots, " << sharpness;
    }
  }
}

}  // namespace
}  // namespace ei::kernels::cuda
