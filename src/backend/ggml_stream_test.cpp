// Attention by ggml's nodes against the reference: ragged heads, windows, plans, rows that see nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "backend/backend.h"
#include "support/random_kv.h"

namespace ei {
namespace {

using kernels::AttentionShape;
using kernels::RandomAttention;

std::vector<float> attend(const char* backend, RandomAttention& input, const BlockPlan* plan) {
  BackendOptions options;
  options.threads = 2;
  const std::unique_ptr<Backend> made = std::move(create_backend(backend, options)).value();
  const std::unique_ptr<Stream> stream = std::move(made->new_stream(nullptr)).value();
  std::vector<float> out(static_cast<size_t>(input.shape().tokens * input.width()), -1.0f);
  kernels::AttentionParams params = input.params(out.data());
  params.plan = plan;
  stream->attention(params);
  EXPECT_TRUE(stream->synchronize().ok());
  return out;
}

void expect_reference(const AttentionShape& shape, const BlockPlan* plan = nullptr) {
  RandomAttention input(shape, 21);
  const std::vector<float> want = attend("reference", input, plan);
  const std::vector<float> got = attend("ggml", input, plan);
  // Over a cache of 16 bits ggml rounds queries and weights to it too.
  const float most = shape.key_type == DType::kF32 ? 1e-5f : shape.key_type == DType::kF16 ? 5e-3f : 5e-2f;
  for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], most) << "element " << i;
}

TEST(GgmlStream, AttendsAsTheReferenceDoes) {
  expect_reference({.head_dim = 64, .kv_heads = 2, .group = 3, .tokens = 17, .context = 300});
  expect_reference({.head_dim = 40, .kv_heads = 1, .group = 1, .tokens = 1, .context = 1});
  expect_reference({.head_dim = 96, .kv_heads = 3, .group = 1, .tokens = 5, .context = 256, .window = 30});
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16})
    expect_reference(
        {.head_dim = 64, .kv_heads = 2, .group = 2, .tokens = 9, .context = 100, .key_type = type, .value_type = type});
}

TEST(GgmlStream, ReadsHeadsOfDifferentLengthsByTheirPositions) {
  expect_reference({.head_dim = 32, .kv_heads = 4, .group = 2, .tokens = 9, .context = 600, .compacted = true});
  expect_reference(
      {.head_dim = 32, .kv_heads = 4, .group = 2, .tokens = 9, .context = 600, .window = 100, .compacted = true});
}

TEST(GgmlStream, ReadsWhatAPlanNames) {
  const AttentionShape shape{.head_dim = 32, .kv_heads = 2, .group = 2, .tokens = 16, .context = 40};
  BlockPlan plan;
  plan.grid = {.segment = 8, .block = 4};
  plan.kv_heads = 2;
  plan.first_segment = 3;
  plan.num_segments = 2;
  plan.dense = {0, 1};
  plan.offsets = {0, 2, 2, 3, 3};
  plan.blocks = {0, 4, 1};
  expect_reference(shape, &plan);
}

TEST(GgmlStream, GivesZerosToARowThatSeesNothing) {
  // The queries come before every position that is left.
  const AttentionShape shape{.head_dim = 32, .kv_heads = 2, .group = 1, .tokens = 4, .context = 8};
  RandomAttention input(shape, 5);
  std::vector<float> out(static_cast<size_t>(shape.tokens * input.width()), -1.0f);
  const std::unique_ptr<Backend> backend = std::move(create_backend("ggml", {})).value();
  const std::unique_ptr<Stream> stream = std::move(backend->new_stream(nullptr)).value();
  kernels::AttentionParams params = input.params(out.data());
  params.first_position = -2;  // rows at -2, -1, 0, 1
  stream->attention(params);
  ASSERT_TRUE(stream->synchronize().ok());
  const auto row = [&](int64_t i) { return out.begin() + i * input.width(); };
  EXPECT_TRUE(std::all_of(row(0), row(2), [](float value) { return value == 0.0f; }));
  EXPECT_TRUE(std::none_of(row(2), row(4), [](float value) { return value == 0.0f || value == -1.0f; }));
}

}  // namespace
}  // namespace ei
