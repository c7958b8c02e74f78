// The choice of the largest keys, thread by thread on the host, against a sort.
#include "kernels/cuda/largest.cuh"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "base/random.h"
#include "base/top_indices.h"

namespace ei::kernels::cuda {
namespace {

// Of `values`, by a block; -7 where nothing was written.
std::vector<int32_t> taken(const std::vector<float>& values, int32_t count) {
  const auto shared = std::make_unique<SelectShared>();
  std::memset(static_cast<void*>(shared.get()), 0xff, sizeof(SelectShared));
  std::vector<int32_t> places(values.size() + 1, -7);
  emulated::Block::run(kSelectThreads, [&] {
    take_largest(
        *shared, static_cast<int32_t>(values.size()), count,
        [&](int32_t i) { return ordered(values[static_cast<size_t>(i)]); },
        [&](int32_t place, int32_t i) { places[static_cast<size_t>(place)] = i; });
  });
  EXPECT_EQ(places.back(), -7);
  return places;
}

void expect_as_sorted(const std::vector<float>& values, int32_t count) {
  std::vector<uint64_t> scratch;
  std::vector<int32_t> wanted;
  append_top_indices(values, count, scratch, wanted);
  std::vector<int32_t> got = taken(values, count);
  for (size_t i = wanted.size(); i < got.size(); ++i) EXPECT_EQ(got[i], -7) << i;
  got.resize(wanted.size());
  EXPECT_EQ(got, wanted) << values.size() << " values, " << count;
}

TEST(Largest, IsWhatSortingGives) {
  Random random(5);
  for (const int32_t size : {31, 1500, 16385}) {
    std::vector<float> values;
    for (int32_t i = 0; i < size; ++i) {
      float value = random.normal();
      if (i % 3 == 0) value = std::round(value);  // ties
      if (i % 11 == 0) value = -3e38f;
      if (i % 501 == 0) value = i % 2 == 0 ? -0.0f : NAN;
      values.push_back(value);
    }
    for (const int32_t count : {0, 1, size / 7, size - 1}) expect_as_sorted(values, count);
  }
}

TEST(Largest, OfEqualsAreTheFirst) {
  expect_as_sorted(std::vector<float>(5000, 1.5f), 1700);
  expect_as_sorted(std::vector<float>(20000, NAN), 7000);
}

}  // namespace
}  // namespace ei::kernels::cuda
