// Logits of keys under a head's form, thread by thread on the host, and how many keys fit into a tile.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "kernels/window_scores/cuda/form_logits.cuh"

namespace ei::kernels::cuda {
namespace {

// What a block may ask for by compute capability, in bytes.
constexpr int64_t k80 = 163 * 1024;
constexpr int64_t k86 = 99 * 1024;  // 8.9 and 12.0 too
constexpr int64_t k90 = 227 * 1024;

TEST(Forms, ATileHasAsManyKeysAsFit) {
  EXPECT_EQ(form_tile_keys(128, k86), 128);
  EXPECT_EQ(form_tile_keys(190, k86), 128);  // exactly
  EXPECT_EQ(form_tile_keys(191, k86), 64);
  EXPECT_EQ(form_tile_keys(192, k86), 64);
  EXPECT_EQ(form_tile_keys(256, k86), 64);
  EXPECT_EQ(form_tile_keys(256, k80), 128);
  EXPECT_EQ(form_tile_keys(446, k90), 128);
  EXPECT_EQ(form_tile_keys(447, k90), 64);
  EXPECT_EQ(form_tile_keys(512, k86), 32);
  EXPECT_EQ(form_tile_keys(784, k86), 32);
  EXPECT_EQ(form_tile_keys(785, k86), 0);
  for (const int64_t most : {k80, k86, k90})
    for (int32_t dim = 1; dim <= 512; ++dim) EXPECT_LE(form_tile_bytes(dim, form_tile_keys(dim, most)), most) << dim;
}

// Of `count` keys, tile by tile; NaN behind them.
template <int kEach>
std::vector<float> logits_of(const std::vector<float>& linear, const std::vector<float>& quadratic,
                             const std::vector<float>& keys, int64_t count) {
  constexpr int kKeys = 32 * kEach;
  const auto dim = static_cast<int32_t>(linear.size());
  std::vector<float> logits(static_cast<size_t>(count) + kKeys, NAN);
  std::vector<KeysOfLane<kEach>> tile(static_cast<size_t>(form_tile_bytes(dim, kKeys)) / sizeof(KeysOfLane<kEach>));
  for (int64_t first = 0; first < count; first += kKeys) {
    for (KeysOfLane<kEach>& keys_of_lane : tile)
      for (float& value : keys_of_lane.of) value = NAN;
    emulated::Block::run(kFormThreads, [&] {
      form_logits<kEach>(
          linear.data(), quadratic.data(), dim, count - first,
          [&](int32_t key, int32_t d) { return keys[static_cast<size_t>((first + key) * dim + d)]; }, tile.data(),
          logits.data() + first);
    });
  }
  for (size_t i = static_cast<size_t>(count); i < logits.size(); ++i) EXPECT_TRUE(std::isnan(logits[i])) << i;
  logits.resize(static_cast<size_t>(count));
  return logits;
}

TEST(Forms, LogitsAreTheSameInTilesOfAnySize) {
  Random random(4);
  const auto normals = [&](int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = random.normal();
    return values;
  };
  for (const int32_t dim : {1, 7, 40, 192, 256}) {
    for (const int64_t count : {1, 31, 129}) {
      SCOPED_TRACE(::testing::Message() << dim << " dimensions, " << count << " keys");
      const std::vector<float> linear = normals(dim);
      const std::vector<float> quadratic = normals(int64_t{dim} * dim);
      const std::vector<float> keys = normals(count * dim);
      const std::vector<float> four = logits_of<4>(linear, quadratic, keys, count);
      EXPECT_EQ(logits_of<2>(linear, quadratic, keys, count), four);
      EXPECT_EQ(logits_of<1>(linear, quadratic, keys, count), four);
      for (int64_t key = 0; key < count; ++key) {
        const float* k = keys.data() + key * dim;
        double wanted = 0;
        double size = 0;
        for (int32_t i = 0; i < dim; ++i) {
          double inner = static_cast<double>(linear[static_cast<size_t>(i)]);
          for (int32_t j = 0; j <= i; ++j)
            inner += static_cast<double>(quadratic[static_cast<size_t>(i * dim + j)]) * static_cast<double>(k[j]);
          wanted += inner * static_cast<double>(k[i]);
          size += std::abs(inner * static_cast<double>(k[i]));
        }
        EXPECT_NEAR(static_cast<double>(four[static_cast<size_t>(key)]), wanted, 1e-5 * size) << key;
      }
    }
  }
}

}  // namespace
}  // namespace ei::kernels::cuda
