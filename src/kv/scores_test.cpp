// Scores that are not the attention of the last queries, from a cache to what is left of it, against plain references.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kv/key_measure.h"
#include "policy/registry.h"
#include "support/compressed_cache.h"

namespace ei::kv {
namespace {

using testing::CompressedCache;
using testing::kDim;
using testing::kHeads;
using testing::kKvHeads;
using Doubles = std::vector<double>;

constexpr int64_t kTokens = 90;
constexpr int64_t kBudget = 40;
constexpr int64_t kWindow = 8;

policy::KvOptions small(const char* name) {
  policy::KvOptions options = policy::find_kv_rule({name})->preset;
  options.keep_slots(kBudget);
  options.window = kWindow;
  return options;
}

Doubles key_at(const KvView& view, int h, int64_t slot) {
  const void* page = view.heads[static_cast<size_t>(h)].key_pages[slot / view.page_slots];
  const auto* key = static_cast<const float*>(page) + slot % view.page_slots * kDim;
  return {key, key + kDim};
}

double norm(const Doubles& key) { return std::sqrt(std::inner_product(key.begin(), key.end(), key.begin(), 0.0)); }

// Compresses, and expects of every kv_head the window and the slots that are worth most.
template <typename Worth>
void expect_kept(CompressedCache& f, Worth worth) {
  std::vector<std::vector<int32_t>> expected;
  for (int layer = 0; layer < f.store.config().layers; ++layer) {
    for (int h = 0; h < kKvHeads; ++h) {
      const Doubles values = worth(layer, h);
      std::vector<int32_t>& order = expected.emplace_back(static_cast<size_t>(kTokens - kWindow));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
        return values[static_cast<size_t>(a)] > values[static_cast<size_t>(b)];
      });
      order.resize(static_cast<size_t>(kBudget - kWindow));
      for (int64_t slot = kTokens - kWindow; slot < kTokens; ++slot) order.push_back(static_cast<int32_t>(slot));
      std::sort(order.begin(), order.end());
    }
  }
  ASSERT_TRUE(f.compressor.compress(*f.stream, f.store).ok());
  for (int layer = 0; layer < f.store.config().layers; ++layer) {
    for (int h = 0; h < kKvHeads; ++h) {
      const KvHeadView& head = f.store.view(layer).heads[static_cast<size_t>(h)];
      std::vector<int32_t> held;
      for (int64_t slot = 0; slot < head.length; ++slot) held.push_back(head.position(slot));
      EXPECT_EQ(held, expected[static_cast<size_t>(layer * kKvHeads + h)]) << "layer " << layer << " kv_head " << h;
    }
  }
}

TEST(KvScores, KnormKeepsTheShortestKeys) {
  CompressedCache f(small("knorm"), {0, 0});
  f.feed(kTokens);
  expect_kept(f, [&](int layer, int h) {
    Doubles worth;
    for (int64_t slot = 0; slot < kTokens; ++slot) worth.push_back(-norm(key_at(f.store.view(layer), h, slot)));
    return worth;
  });
}

TEST(KvScores, KeydiffKeepsTheKeysLeastLikeTheMeanDirection) {
  CompressedCache f(small("keydiff"), {0, 0});
  f.feed(kTokens);
  expect_kept(f, [&](int layer, int h) {
    Doubles mean(kDim);
    for (int64_t slot = 0; slot < kTokens; ++slot) {
      const Doubles key = key_at(f.store.view(layer), h, slot);
      for (size_t d = 0; d < kDim; ++d) mean[d] += key[d] / norm(key) / kTokens;
    }
    Doubles worth;
    for (int64_t slot = 0; slot < kTokens; ++slot) {
      const Doubles key = key_at(f.store.view(layer), h, slot);
      worth.push_back(-std::inner_product(key.begin(), key.end(), mean.begin(), 0.0) / (norm(key) * norm(mean)));
    }
    return worth;
  });
}

// With a sample of all queries: sums of attention over the whole text, the mean over the heads of a kv_head.
TEST(KvScores, H2oByASampleOfAllQueriesIsAccumulatedAttention) {
  policy::KvOptions options = small("h2o");
  options.queries = policy::QuerySource::kSampled;
  options.recent = 0;
  options.samples = kTokens;
  CompressedCache f(options, {0, 0});
  f.feed(30);
  f.feed(kTokens - 30);
  expect_kept(f, [&](int layer, int h) {
    Doubles sums(kTokens);
    constexpr int kGroup = kHeads / kKvHeads;
    for (int32_t position = 0; position < kTokens; ++position) {
      for (int64_t head = h * kGroup; head < (h + 1) * kGroup; ++head) {
        const Doubles weights = testing::attention_of(f, layer, head, position);
        for (size_t slot = 0; slot < weights.size(); ++slot) sums[slot] += weights[slot];
      }
    }
    return sums;
  });
}

Doubles value_at(const KvView& view, int h, int64_t slot) {
  const void* page = view.heads[static_cast<size_t>(h)].value_pages[slot / view.page_slots];
  const auto* value = static_cast<const float*>(page) + slot % view.page_slots * kDim;
  return {value, value + kDim};
}

// What a rotation by `angles` of the pairs (i, i + kDim / 2) makes of a vector.
Doubles turned(const Doubles& vector, const Doubles& cos, const Doubles& sin) {
  Doubles out = vector;
  for (size_t i = 0; i < kDim / 2; ++i) {
    out[i] = vector[i] * cos[i] - vector[i + kDim / 2] * sin[i];
    out[i + kDim / 2] = vector[i] * sin[i] + vector[i + kDim / 2] * cos[i];
  }
  return out;
}

Doubles angles_at(double position) {
  Doubles angles;
  for (int i = 0; i < kDim / 2; ++i) angles.push_back(position * std::pow(10000.0, -2.0 * i / kDim));
  return angles;
}

Doubles each(const Doubles& angles, double (*of)(double)) {
  Doubles out;
  for (const double angle : angles) out.push_back(of(angle));
  return out;
}

// The logit that a key can expect of one head, from the formula: queries turned back to where they came from, their
// mean and covariance, and the mean rotation of the next positions.
class ExpectedLogit {
 public:
  ExpectedLogit(const CompressedCache& f, int64_t head) : mean_(kDim), covariance_(kDim, Doubles(kDim)) {
    Doubles cos(kDim / 2);
    Doubles sin(kDim / 2);
    for (int32_t step = 0; step < kExpectedPositions; ++step) {
      const Doubles angles = angles_at(static_cast<double>(kTokens + step));
      for (size_t i = 0; i < kDim / 2; ++i) {
        cos[i] += std::cos(angles[i]) / kExpectedPositions;
        sin[i] += std::sin(angles[i]) / kExpectedPositions;
      }
    }
    std::vector<Doubles> rows;
    for (int64_t position = 0; position < kTokens; ++position) {
      const float* q = f.queries.data() + position * testing::kWidth + head * kDim;
      const Doubles back = angles_at(-static_cast<double>(position));
      const Doubles plain = turned(Doubles(q, q + kDim), each(back, [](double x) { return std::cos(x); }),
                                   each(back, [](double x) { return std::sin(x); }));
      rows.push_back(turned(plain, cos, sin));
      for (size_t d = 0; d < kDim; ++d) mean_[d] += rows.back()[d] / kTokens;
    }
    for (const Doubles& row : rows)
      for (size_t i = 0; i < kDim; ++i)
        for (size_t j = 0; j < kDim; ++j) covariance_[i][j] += (row[i] - mean_[i]) * (row[j] - mean_[j]) / kTokens;
  }

  double of(const Doubles& key) const {
    constexpr double kScale = 0.35f;
    double logit = 0;
    for (size_t i = 0; i < kDim; ++i) {
      logit += kScale * mean_[i] * key[i];
      for (size_t j = 0; j < kDim; ++j) logit += kScale * kScale / 2 * key[i] * covariance_[i][j] * key[j];
    }
    return logit;
  }

 private:
  Doubles mean_;
  std::vector<Doubles> covariance_;
};

TEST(KvScores, ExpectedIsTheAttentionOfNormallyDistributedQueriesTimesTheValue) {
  policy::KvOptions options = small("expected");
  options.samples = kTokens;
  options.sinks = 0;
  CompressedCache f(options, {0, 0});
  f.feed(30);
  f.feed(kTokens - 30);
  expect_kept(f, [&](int layer, int h) {
    Doubles worth(kTokens);
    constexpr int kGroup = kHeads / kKvHeads;
    for (int64_t head = h * kGroup; head < (h + 1) * kGroup; ++head) {
      const ExpectedLogit logit(f, head);
      Doubles weights;
      for (int64_t slot = 0; slot < kTokens; ++slot)
        weights.push_back(std::exp(logit.of(key_at(f.store.view(layer), h, slot))));
      const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
      for (int64_t slot = 0; slot < kTokens; ++slot)
        worth[static_cast<size_t>(slot)] +=
            weights[static_cast<size_t>(slot)] / total * norm(value_at(f.store.view(layer), h, slot));
    }
    return worth;
  });
}

TEST(KvScores, KeysOf16BitsAreMeasuredAsTheyAre) {
  BackendOptions options;
  options.threads = 1;
  const auto backend = std::move(create_backend("cpu", options)).value();
  for (const DType type : {DType::kF16, DType::kBF16}) {
    std::vector<uint16_t> page(16 * 4);
    for (size_t i = 0; i < page.size(); ++i)
      store_element(page.data(), type, static_cast<int64_t>(i), i % 4 == 0 ? 3 : 0);
    store_element(page.data(), type, 5, 4);  // slot 1: (3, 4, 0, 0)
    const void* const pages[] = {page.data()};
    const KvHeadView head{.key_pages = pages, .value_pages = pages, .length = 2};
    const KvView view{.key_type = type, .value_type = type, .head_dim = 4, .page_slots = 8, .heads = {&head, 1}};
    EXPECT_EQ(*measure_keys(*backend, view, policy::KeyMeasure::kNorm, 3), (std::vector<float>{3, 5, 0}));
    const std::vector<float> cosines = *measure_keys(*backend, view, policy::KeyMeasure::kCosine, 3);
    EXPECT_NEAR(cosines[0], 1.6 / std::sqrt(1.6 * 1.6 + 0.8 * 0.8), 1e-6);
    EXPECT_NEAR(cosines[0], cosines[1], 1e-6) << "two directions lie equally far from their mean";
  }
}

}  // namespace
}  // namespace ei::kv
