#include "kernels/attention/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>

#include "kernels/attention/reference/attention_scalar.h"
#include "support/attention_runs.h"

namespace ei::kernels {
namespace {

// docs/numerics.md, "Attention": largest and root-mean-square difference to the reference, of outputs of order one.
struct Tolerance {
  double max;
  double rms;
};
Tolerance tolerance_of(const AttentionVariant& variant) {
  const bool matrix_bf16 = variant.name.find("bf16") != std::string_view::npos || variant.name == "amx";
  if (variant.name == "neonfp16") return {8e-3, 8e-4};
  return matrix_bf16 ? Tolerance{3e-2, 3e-3} : Tolerance{1e-5, 1e-6};
}

std::string describe(const AttentionVariant& variant, const AttentionShape& s, uint64_t seed) {
  return std::string(variant.name) + " seed=" + std::to_string(seed) + " dim=" + std::to_string(s.head_dim) +
         " kv_heads=" + std::to_string(s.kv_heads) + " group=" + std::to_string(s.group) +
         " tokens=" + std::to_string(s.tokens) + " context=" + std::to_string(s.context) +
         " page=" + std::to_string(s.page_slots) + " window=" + std::to_string(s.window) + " " +
         dtype_name(s.key_type) + "/" + dtype_name(s.value_type) + (s.compacted ? " compacted" : "");
}

void expect_close(const std::vector<float>& got, const std::vector<float>& want, Tolerance tolerance) {
  double worst = 0;
  double sum = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double difference = std::abs(static_cast<double>(got[i]) - static_cast<double>(want[i]));
    worst = difference <= worst ? worst : difference;  // keeps a NaN
    sum += difference * difference;
  }
  EXPECT_LE(worst, tolerance.max);
  EXPECT_LE(std::sqrt(sum / static_cast<double>(got.size())), tolerance.rms);
}

void check_shape(const AttentionShape& shape, uint64_t seed, const BlockPlan* plan = nullptr) {
  const bool quantised = shape.key_type == DType::kQ8_0 || shape.value_type == DType::kQ8_0;
  if (left_out(shape) || (quantised && shape.head_dim % kQ8Elements != 0)) return;
  RandomAttention input(shape, seed);
  const std::vector<float> want = result_of(scalar_attention(), input, 1, plan);
  for (const AttentionVariant* variant : usable_variants(shape)) {
    if (variant == &scalar_attention()) continue;
    SCOPED_TRACE(describe(*variant, shape, seed));
    expect_close(result_of(*variant, input, 1, plan), want, tolerance_of(*variant));
  }
}

TEST(AttentionChoice, EndsWithTheScalarReferenceThatServesEverything) {
  const AttentionVariant& last = *attention_variants().back();
  EXPECT_EQ(last.name, "scalar");
  EXPECT_TRUE(last.usable());
  for (const DType key : kHostDTypes) {
    for (const DType value : kHostDTypes) EXPECT_TRUE(last.accepts(key, value));
  }
}

TEST(AttentionChoice, TakesTheFastestUsableVariantUnderTheCap) {
  for (const DType type : kHostDTypes) {
    const AttentionVariant* best = choose_attention(type, type, "");
    ASSERT_NE(best, nullptr);
    EXPECT_TRUE(best->usable() && best->accepts(type, type));
    EXPECT_EQ(choose_attention(type, type, "scalar")->name, "scalar");
    EXPECT_EQ(choose_attention(type, type, "vax"), nullptr);
    for (const AttentionVariant* variant : attention_variants()) {
      const AttentionVariant* capped = choose_attention(type, type, variant->name);
      ASSERT_NE(capped, nullptr);
      EXPECT_EQ(capped == variant, variant->usable() && variant->accepts(type, type));
    }
  }
}

TEST(AttentionReference, AveragesTheVisibleValuesWhenQueriesAreZero) {
  // Values are their own position, so the mean over what a row sees is known.
  constexpr int32_t kDim = 32;
  constexpr int64_t kContext = 40;
  std::vector<float> keys(kContext * kDim, 1.0f);
  std::vector<float> values(kContext * kDim);
  for (int64_t i = 0; i < kContext * kDim; ++i) {
    const int64_t slot = i / kDim;
    values[static_cast<size_t>(i)] = static_cast<float>(slot);
  }
  const void* key_pages[] = {keys.data()};
  const void* value_pages[] = {values.data()};
  KvHeadView head{.key_pages = key_pages, .value_pages = value_pages, .length = kContext};
  std::vector<float> q(10 * kDim, 0.0f);
  std::vector<float> out(10 * kDim, NAN);
  AttentionParams params;
  params.q = q.data();
  params.out = out.data();
  params.q_stride = params.out_stride = kDim;
  params.tokens = 10;
  params.num_heads = 1;
  params.first_position = 30;
  params.scale = 1;
  params.kv = {DType::kF32, DType::kF32, kDim, 64, {&head, 1}};

  run_attention(scalar_attention(), params, 1);
  for (int64_t t = 0; t < 10; ++t) EXPECT_FLOAT_EQ(out[static_cast<size_t>(t * kDim)], static_cast<float>(30 + t) / 2);

  params.window = 5;
  run_attention(scalar_attention(), params, 1);
  for (int64_t t = 0; t < 10; ++t) EXPECT_FLOAT_EQ(out[static_cast<size_t>(t * kDim)], static_cast<float>(28 + t));

  params.window = 0;
  BlockPlan plan;
  plan.grid = {.segment = 8, .block = 4};
  plan.kv_heads = 1;
  plan.first_segment = 3;
  plan.num_segments = 2;
  plan.dense = {0, 1};
  plan.offsets = {0, 2, 2};
  plan.blocks = {0, 4};  // slots 0..3 and 16..19
  params.plan = &plan;
  run_attention(scalar_attention(), params, 1);
  EXPECT_FLOAT_EQ(out[0], (6.0f + 70.0f + 189.0f) / 15);  // plus its own segment's 24..30
  EXPECT_FLOAT_EQ(out[2 * kDim], 16.0f);                  // position 32 lies in a dense segment
}

TEST(Attention, AgreesWithTheReferenceOnOddShapes) {
  Random random(11);
  for (const int32_t head_dim : {32, 40, 64, 72, 80, 96, 128, 256}) {
    for (const int64_t tokens : {1, 2, 3, 5, 17, 64, 129}) {
      AttentionShape shape{.head_dim = head_dim, .kv_heads = static_cast<int32_t>(random.between(1, 3))};
      constexpr int32_t kGroups[] = {1, 2, 3, 4, 7, 8};
      shape.group = tokens > 64 ? static_cast<int32_t>(random.between(1, 2)) : kGroups[random.below(6)];
      shape.tokens = tokens;
      shape.context = tokens + random.below(tokens > 64 ? 200 : 400);
      shape.page_slots = random.below(2) == 0 ? 16 : 128;
      shape.key_type = kHostDTypes[random.below(4)];
      shape.value_type = random.below(2) == 0 ? shape.key_type : kHostDTypes[random.below(4)];
      check_shape(shape, random.next());
      for (const DType type : {DType::kBF16, DType::kF16, DType::kQ8_0}) {
        shape.key_type = shape.value_type = type;
        check_shape(shape, random.next());
      }
    }
  }
}

TEST(Attention, ReadsMixturesOfQ8WithEveryOtherType) {
  uint64_t seed = 61;
  for (const DType other : kHostDTypes) {
    for (const int64_t tokens : {1, 4, 40}) {
      AttentionShape shape{.kv_heads = 2, .group = 3, .tokens = tokens, .context = 1300, .page_slots = 120};
      shape.key_type = DType::kQ8_0;
      shape.value_type = other;
      check_shape(shape, ++seed);
      std::swap(shape.key_type, shape.value_type);
      check_shape(shape, ++seed);
    }
  }
}

TEST(Attention, AgreesWithTheReferenceOnLongCaches) {
  for (const int64_t tokens : {1, 4, 33}) {
    for (const DType type : kHostDTypes) {
      check_shape({.kv_heads = 2, .group = 3, .tokens = tokens, .context = 3001, .key_type = type, .value_type = type},
                  static_cast<uint64_t>(tokens));
    }
  }
  check_shape({.tokens = 300, .context = 300}, 5);
}

TEST(Attention, SeesOnlyTheWindow) {
  for (const int32_t window : {1, 7, 64, 130, 5000}) {
    for (const int64_t tokens : {1, 3, 40, 129}) {
      check_shape({.kv_heads = 1, .group = 2, .tokens = tokens, .context = 400, .page_slots = 16, .window = window},
                  21);
      for (const DType type : {DType::kBF16, DType::kF16, DType::kQ8_0}) {
        check_shape({.kv_heads = 2,
                     .group = 1,
                     .tokens = tokens,
                     .context = 400,
                     .window = window,
                     .key_type = type,
                     .value_type = type},
                    22);
      }
    }
  }
}

TEST(Attention, ReadsCompactedHeadsByTheirTruePositions) {
  for (const DType type : kHostDTypes) {
    for (const int64_t tokens : {1, 5, 70}) {
      for (const int32_t window : {0, 100}) {
        AttentionShape shape{.kv_heads = 3, .group = 2, .tokens = tokens, .context = 500, .page_slots = 16};
        shape.window = window;
        shape.key_type = shape.value_type = type;
        shape.compacted = true;
        check_shape(shape, 31);
      }
    }
  }
}

TEST(Attention, GivesZerosToRowsThatSeeNothing) {
  for (const int64_t tokens : {2, 20}) {
    for (const DType type : kHostDTypes) {
      RandomAttention input({.tokens = tokens, .context = tokens, .key_type = type, .value_type = type}, 1);
      for (const AttentionVariant* variant : usable_variants(input.shape())) {
        std::vector<float> out(static_cast<size_t>(tokens * input.width()), NAN);
        AttentionParams params = input.params(out.data());
        KvHeadView later = params.kv.heads[0];
        later.tail_position = static_cast<int32_t>(tokens) - 1;  // only the last row reaches the first slot
        params.kv.heads = {&later, 1};
        run_attention(*variant, params, 2);
        const auto first_seen = out.end() - input.width();
        EXPECT_TRUE(std::all_of(out.begin(), first_seen, [](float x) { return x == 0.0f; })) << variant->name;
        EXPECT_TRUE(std::any_of(first_seen, out.end(), [](float x) { return x != 0.0f; })) << variant->name;

        later.length = 0;
        run_attention(*variant, params, 1);
        EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](float x) { return x == 0.0f; })) << variant->name;
      }
    }
  }
}

BlockPlan random_plan(const AttentionShape& shape, SegmentGrid grid, uint64_t seed, bool all_blocks) {
  Random random(seed);
  const int64_t first = (shape.context - shape.tokens) / grid.segment;
  const int64_t last = (shape.context - 1) / grid.segment;
  BlockPlan plan;
  plan.grid = grid;
  plan.kv_heads = shape.kv_heads;
  plan.first_segment = static_cast<int32_t>(first);
  plan.num_segments = static_cast<int32_t>(last - first + 1);
  for (int64_t segment = first; segment <= last; ++segment) plan.dense.push_back(!all_blocks && random.below(4) == 0);
  plan.offsets.push_back(0);
  for (int32_t head = 0; head < shape.kv_heads; ++head) {
    for (int64_t segment = first; segment <= last; ++segment) {
      for (int64_t block = 0; block < segment * grid.blocks_per_segment(); ++block) {
        if (all_blocks || random.below(3) == 0) plan.blocks.push_back(static_cast<int32_t>(block));
      }
      plan.offsets.push_back(static_cast<int64_t>(plan.blocks.size()));
    }
  }
  return plan;
}

TEST(Attention, ReadsThePlannedBlocksAndItsOwnSegment) {
  uint64_t seed = 41;
  for (const SegmentGrid grid : {SegmentGrid{64, 8}, SegmentGrid{32, 16}, SegmentGrid{512, 64}}) {
    for (const int64_t tokens : {1, 3, 100, 200}) {
      for (const DType type : kHostDTypes) {
        for (const int32_t window : {0, 150}) {
          AttentionShape shape{.kv_heads = 2, .group = 2, .tokens = tokens, .context = tokens + 256};
          shape.page_slots = 16;
          shape.window = window;
          shape.key_type = shape.value_type = type;
          const BlockPlan plan = random_plan(shape, grid, ++seed, false);
          check_shape(shape, seed, &plan);
        }
      }
    }
  }
}

TEST(Attention, TakesEveryHeadDimThatAModelMayHaveDenseAndPlanned) {
  constexpr SegmentGrid kGrids[] = {{64, 8}, {60, 12}, {40, 4}, {30, 1}, {100, 10}};
  uint64_t seed = 100;
  for (int32_t head_dim = 32; head_dim <= 256; head_dim += 8) {
    for (const int64_t tokens : {1, 3, 20}) {
      for (const DType type : kHostDTypes) {
        AttentionShape shape{.head_dim = head_dim, .group = 1 + head_dim / 8 % 4, .tokens = tokens};
        shape.context = tokens + 150;
        shape.key_type = shape.value_type = type;
        check_shape(shape, ++seed);
        const BlockPlan plan = random_plan(shape, kGrids[seed % std::size(kGrids)], seed, false);
        check_shape(shape, seed, &plan);
      }
    }
  }
}

TEST(Attention, IsDenseWhenThePlanHoldsEveryBlock) {
  for (const DType type : {DType::kBF16, DType::kF16, DType::kQ8_0}) {
    const AttentionShape shape{
        .kv_heads = 2, .group = 2, .tokens = 100, .context = 500, .key_type = type, .value_type = type};
    RandomAttention input(shape, 51);
    const BlockPlan plan = random_plan(shape, {64, 8}, 51, true);
    for (const AttentionVariant* variant : usable_variants(shape))
      EXPECT_TRUE(result_of(*variant, input, 1, &plan) == result_of(*variant, input, 1)) << variant->name;
  }
}

void expect_no_effect_of_the_cut(DType type, int32_t window) {
  AttentionShape shape{.head_dim = 40, .kv_heads = 2, .group = 3, .tokens = 300, .context = 350, .window = window};
  if (type == DType::kQ8_0) shape.head_dim = 96;
  shape.key_type = shape.value_type = type;
  RandomAttention input(shape, 71);
  for (const AttentionVariant* variant : usable_variants(shape)) {
    if (variant == &scalar_attention()) continue;
    const std::vector<float> whole = result_of(*variant, input, 1);
    std::vector<float> cut(whole.size(), NAN);
    int64_t begin = 0;
    for (const int64_t count : {5, 1, 16, 2, 62, 3, 9, 4, 121, 75, 1, 1}) {
      AttentionParams params = input.params(begin, count, cut.data() + begin * input.width());
      params.prompt = true;
      run_attention(*variant, params, 2);
      begin += count;
    }
    ASSERT_EQ(begin, shape.tokens);
    EXPECT_TRUE(cut == whole) << variant->name << " seed=71";
  }
}

TEST(Attention, DoesNotDependOnHowThePromptIsCut) {
  for (const DType type : {DType::kBF16, DType::kF16, DType::kQ8_0}) {
    for (const int32_t window : {0, 90}) expect_no_effect_of_the_cut(type, window);
  }
}

}  // namespace
}  // namespace ei::kernels
