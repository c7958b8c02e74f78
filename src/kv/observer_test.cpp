// The observer's rings: the last queries, or a sample of all, however they came.
#include "kv/observer.h"

#include <gtest/gtest.h>

#include "support/compressed_cache.h"

namespace ei::kv {
namespace {

using testing::CompressedCache;
using testing::kWidth;

policy::KvOptions latent_options(int32_t budget, int32_t window) {
  return {.rule = policy::KvRule::kLatent, .budget = budget, .window = window, .kernel = 3};
}

TEST(Observer, HoldsTheLastQueriesHoweverTheyCame) {
  CompressedCache f(latent_options(20, 6), {0, 0});
  EXPECT_EQ(f.compressor.observer().size(), 0);
  f.feed(1);
  f.expect_last_queries(1);
  f.feed(4);
  f.expect_last_queries(5);
  for (const int64_t tokens : {1, 1, 50, 1, 5, 6, 7, 1, 12, 13, 1}) {
    f.feed(tokens);
    f.expect_last_queries(6);
  }
}

TEST(Observer, LosesNothingWithAChunkThatFails) {
  CompressedCache f(latent_options(20, 6), {0, 0});
  f.feed(23);
  for (const int64_t tokens : {1, 3, 6, 12, 40}) {
    f.feed(tokens, /*fails=*/true);
    f.feed(tokens, /*fails=*/true);
    f.expect_last_queries(6);
    f.feed(1);
    f.expect_last_queries(6);
  }
}

TEST(Observer, ForgetsWhatIsRewound) {
  CompressedCache f(latent_options(20, 6), {0, 0});
  f.feed(40);  // only the last 6 were recorded
  f.feed(6);
  f.rewind(44);
  f.expect_last_queries(6);
  f.rewind(36);
  f.expect_last_queries(2);
  f.rewind(10);
  EXPECT_EQ(f.compressor.observer().size(), 0);
  f.feed(3);
  f.expect_last_queries(3);
}

policy::KvOptions sampled(int32_t samples) {
  policy::KvOptions options = latent_options(20, 6);
  options.queries = policy::QuerySource::kSampled;
  options.samples = samples;
  return options;
}

// Positions step - 1, 2 step - 1 ... with the smallest power of two that leaves at most `samples` of them.
std::vector<int32_t> even_sample(int32_t tokens, int32_t samples) {
  int32_t step = 1;
  while (tokens / step > samples) step *= 2;
  std::vector<int32_t> positions;
  for (int32_t position = step - 1; position < tokens; position += step) positions.push_back(position);
  return positions;
}

void expect_sample(CompressedCache& f, const std::vector<int32_t>& positions) {
  ASSERT_EQ(f.compressor.observer().positions(), positions);
  const Matrix window = f.compressor.observer().queries(*f.stream, 1);
  ASSERT_TRUE(f.stream->synchronize().ok());
  ASSERT_EQ(window.rows, static_cast<int64_t>(positions.size()));
  std::vector<float> held(positions.size() * kWidth);
  if (!held.empty()) {
    ASSERT_TRUE(f.stream->read(window, held.data()).ok());
  }
  for (size_t i = 0; i < positions.size(); ++i)
    ASSERT_TRUE(std::equal(held.begin() + static_cast<std::ptrdiff_t>(i) * kWidth,
                           held.begin() + static_cast<std::ptrdiff_t>(i + 1) * kWidth,
                           f.queries.begin() + positions[i] * kWidth))
        << "position " << positions[i];
}

TEST(Observer, ASampleLiesEvenlyOverTheTextHoweverItCame) {
  for (const std::vector<int64_t>& chunks :
       {std::vector<int64_t>{1, 1, 1, 5, 7, 50, 1, 64, 3, 200}, {333}, {100, 233}, {8, 8, 8, 8}}) {
    CompressedCache f(sampled(8), {0, 0});
    for (const int64_t tokens : chunks) {
      f.feed(tokens);
      expect_sample(f, even_sample(f.store.next_position(), 8));
    }
  }
}

TEST(Observer, ASampleSurvivesAChunkThatFailsAndARewind) {
  CompressedCache f(sampled(8), {0, 0});
  f.feed(61);
  for (const int64_t tokens : {1, 3, 70, 500}) {
    f.feed(tokens, /*fails=*/true);
    expect_sample(f, even_sample(61, 8));
  }
  f.rewind(40);  // what was thinned out stays so
  expect_sample(f, {7, 15, 23, 31, 39});
  f.feed(30);
  expect_sample(f, {7, 15, 23, 31, 39, 47, 55, 63});
}

}  // namespace
}  // namespace ei::kv
