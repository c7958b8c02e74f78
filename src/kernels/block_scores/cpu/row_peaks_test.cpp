// The x86 products of bytes with every vector and tile instruction replaced by loops, against sums over plain rows:
// what is tested here on any machine are layouts, the offset of unsigned queries, and rests of tiles. The variants a
// CPU really has are tested in peak_scores_threads_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/random.h"
#include "kernels/attention/attention.h"
#include "kernels/block_scores/cpu/row_peaks_lanes.h"
#include "kernels/block_scores/cpu/row_peaks_tiles.h"
#include "support/bytes_emulated.h"
#include "support/tiles_emulated.h"

namespace ei::kernels {
namespace {

template <typename Isa>
class ByteProducts : public testing::Test {};
using EmulatedPeaks = testing::Types<LanesPeaks<BytesEmulated>, TilesPeaks<TilesEmulated>>;
TYPED_TEST_SUITE(ByteProducts, EmulatedPeaks);

constexpr int kDims[] = {8, 16, 40, 64, 72, 80, 120, 128, 192, 256, 512};

template <typename Isa>
void check(int dim, const std::vector<int8_t>& rows, const std::vector<int8_t>& keys) {
  const auto at = [&](int index, int d) { return static_cast<size_t>(index * dim + d); };
  std::vector<int8_t> q(rows.size());
  std::vector<int8_t> panel(keys.size());
  for (int d = 0; d < dim; ++d) {
    for (int row = 0; row < Isa::kRows; ++row) q[static_cast<size_t>(Isa::query_index(row, d))] = rows[at(row, d)];
    for (int key = 0; key < kPanelKeys; ++key)
      panel[static_cast<size_t>(Isa::key_index(key, d, dim))] = keys[at(key, d)];
  }
  float products[kPanelKeys * Isa::kRows];
  float peaks[Isa::kRows];
  {
    [[maybe_unused]] const typename Isa::Session session(dim);
    Isa::products(q.data(), panel.data(), dim, products);
    Isa::peaks(q.data(), panel.data(), dim, peaks);
  }
  for (int row = 0; row < Isa::kRows; ++row) {
    int32_t best = INT32_MIN;
    for (int key = 0; key < kPanelKeys; ++key) {
      int32_t sum = 0;
      for (int d = 0; d < dim; ++d) sum += rows[at(row, d)] * keys[at(key, d)];
      ASSERT_EQ(products[key * Isa::kRows + row], static_cast<float>(sum)) << "dim " << dim << " key " << key;
      best = std::max(best, sum);
    }
    ASSERT_EQ(peaks[row], static_cast<float>(best)) << "dim " << dim << " row " << row;
  }
}

TYPED_TEST(ByteProducts, AreExact) {
  Random random(3);
  for (const int dim : kDims) {
    std::vector<int8_t> rows(static_cast<size_t>(TypeParam::kRows * dim));
    std::vector<int8_t> keys(static_cast<size_t>(kPanelKeys * dim));
    for (std::vector<int8_t>* bytes : {&rows, &keys})
      for (int8_t& byte : *bytes) byte = static_cast<int8_t>(static_cast<int>(random.below(255)) - 127);
    check<TypeParam>(dim, rows, keys);
  }
}

TYPED_TEST(ByteProducts, AreExactAtTheLargestBytes) {
  for (const int dim : kDims) {
    for (const int sign : {-1, 1}) {
      const std::vector<int8_t> rows(static_cast<size_t>(TypeParam::kRows * dim), 127);
      const std::vector<int8_t> keys(static_cast<size_t>(kPanelKeys * dim), static_cast<int8_t>(127 * sign));
      check<TypeParam>(dim, rows, keys);
    }
  }
}

TYPED_TEST(ByteProducts, FillTheirPanelsInRuns) {
  for (const int dim : kDims) {
    std::set<int64_t> places;
    for (int key = 0; key < kPanelKeys; ++key) {
      for (int d = 0; d < dim; ++d) {
        places.insert(TypeParam::key_index(key, d, dim));
        EXPECT_EQ(TypeParam::key_index(key, d, dim),
                  TypeParam::key_index(key, d - d % TypeParam::kRun, dim) + d % TypeParam::kRun);
      }
    }
    EXPECT_EQ(places.size(), static_cast<size_t>(kPanelKeys * dim));
    EXPECT_EQ(*places.begin(), 0);
    EXPECT_EQ(*places.rbegin(), int64_t{kPanelKeys} * dim - 1);
  }
}

TEST(PeakChoice, FollowsTheAttentionVariants) {
  const std::vector<const PeakVariant*>& all = peak_variants();
  const auto place = [&](const PeakVariant& variant) {
    return std::find(all.begin(), all.end(), &variant) - all.begin();
  };
  EXPECT_TRUE(std::all_of(all.begin(), all.begin() + place(choose_peak("")), [](auto* v) { return !v->usable(); }));
  ptrdiff_t last = place(choose_peak(""));
  for (const AttentionVariant* attention : attention_variants()) {
    const PeakVariant& chosen = choose_peak(attention->name);
    EXPECT_TRUE(chosen.usable()) << attention->name;
    EXPECT_GE(place(chosen), last) << attention->name << " allows more than a faster variant";
    last = place(chosen);
  }
  EXPECT_EQ(choose_peak("scalar").name, "portable");
#if defined(__aarch64__)
  EXPECT_EQ(choose_peak("neon").name, "portable");
#endif
  for (const PeakVariant* variant : all)
    EXPECT_EQ(std::count_if(attention_variants().begin(), attention_variants().end(),
                            [&](const AttentionVariant* attention) { return attention->name == variant->attention; }),
              1)
        << variant->name << " stands beside no attention variant";
}

}  // namespace
}  // namespace ei::kernels
