// The x86 kernels with every vector and tile instruction replaced by loops: what is tested here on any machine are
// their layouts, masks, tails and the order of the work; the instructions themselves are tested where the CPU has them.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/attention/cpu/flash_variant.h"
#include "kernels/attention/cpu/lanes_decode.h"
#include "kernels/attention/cpu/lanes_prefill.h"
#include "kernels/attention/cpu/lanes_tiles.h"
#include "kernels/attention/reference/attention_scalar.h"
#include "kernels/simd/vec_emulated.h"
#include "support/random_kv.h"
#include "support/tiles_emulated.h"

namespace ei::kernels {
namespace {

using Vec8 = VecEmulated<8>;
using Vec16 = VecEmulated<16>;

bool any_types(DType, DType) { return true; }
bool bf16_only(DType key_type, DType value_type) { return key_type == DType::kBF16 && value_type == DType::kBF16; }

template <typename PrefillIsa, typename DecodeIsa>
AttentionVariant variant(std::string_view name, bool (*accepts)(DType, DType)) {
  using Flash = FlashVariant<PrefillIsa, DecodeIsa>;
  return {name, emulated_always, accepts, Flash::scratch_bytes, Flash::run};
}

struct Emulated {
  AttentionVariant variant;
  double max;  // tolerances as for the real variants
  double rms;
};
std::vector<Emulated> emulated() {
  return {{variant<LanesPrefill<Vec8, 4, 3, false>, LanesDecode<Vec8>>("avx2", any_types), 1e-5, 1e-6},
          {variant<LanesPrefill<Vec16, 8, 3, false>, LanesDecode<Vec16>>("avx512", any_types), 1e-5, 1e-6},
          {variant<LanesPrefill<Vec16, 8, 3, true>, LanesDecode<Vec16>>("avx512bf16", bf16_only), 3e-2, 3e-3},
          {variant<LanesTiles<Vec16, TilesEmulated>, LanesDecode<Vec16>>("amx", bf16_only), 3e-2, 3e-3}};
}

std::vector<float> result_of(const AttentionVariant& variant, RandomAttention& input, const BlockPlan* plan,
                             int workers = 1) {
  std::vector<float> out(static_cast<size_t>(input.shape().tokens * input.width()), NAN);
  AttentionParams params = input.params(out.data());
  params.plan = plan;
  run_attention(variant, params, workers);
  return out;
}

void check(const AttentionShape& shape, uint64_t seed, const BlockPlan* plan = nullptr) {
  if (left_out(shape)) return;
  RandomAttention input(shape, seed);
  const std::vector<float> want = result_of(scalar_attention(), input, plan);
  for (const Emulated& one : emulated()) {
    if (!one.variant.accepts(shape.key_type, shape.value_type)) continue;
    const std::vector<float> got = result_of(one.variant, input, plan);
    double worst = 0;
    double sum = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      const double difference = std::abs(static_cast<double>(got[i]) - static_cast<double>(want[i]));
      worst = difference <= worst ? worst : difference;  // keeps a NaN
      sum += difference * difference;
    }
    EXPECT_TRUE(worst <= one.max && std::sqrt(sum / static_cast<double>(got.size())) <= one.rms)
        << one.variant.name << " worst=" << worst << " rms=" << std::sqrt(sum / static_cast<double>(got.size()))
        << " dim=" << shape.head_dim << " group=" << shape.group << " tokens=" << shape.tokens
        << " context=" << shape.context << " window=" << shape.window << " " << dtype_name(shape.key_type)
        << " seed=" << seed;
  }
}

TEST(Lanes, AgreeWithTheReferenceOnOddShapes) {
  uint64_t seed = 100;
  for (const int32_t head_dim : {32, 40, 64, 72, 96, 128, 256}) {
    for (const int64_t tokens : {1, 3, 5, 23, 70}) {
      for (const DType type : kHostDTypes) {
        if (type == DType::kQ8_0 && head_dim % kQ8Elements != 0) continue;
        AttentionShape shape{.head_dim = head_dim, .group = static_cast<int32_t>(1 + seed % 3), .tokens = tokens};
        shape.context = tokens + static_cast<int64_t>(seed * 37 % 301);
        shape.page_slots = 16;
        shape.key_type = shape.value_type = type;
        check(shape, ++seed);
      }
    }
  }
}

TEST(Lanes, SeeOnlyTheWindowAndCompactedSlots) {
  for (const int32_t window : {1, 50, 200}) {
    for (const DType type : {DType::kF32, DType::kBF16, DType::kQ8_0}) {
      AttentionShape shape{.kv_heads = 2, .group = 2, .tokens = 60, .context = 420, .window = window};
      shape.key_type = shape.value_type = type;
      check(shape, 7);
      shape.compacted = true;
      check(shape, 8);
      shape.tokens = 2;
      check(shape, 9);
    }
  }
}

TEST(Lanes, FollowAMaximumThatGrowsLate) {
  // Scores spread over many times kLazyMax, so that for some rows a later tile holds a far higher one.
  for (const DType type : {DType::kF32, DType::kBF16}) {
    AttentionShape shape{.head_dim = 64, .tokens = 80, .context = 600, .key_type = type, .value_type = type};
    RandomAttention input(shape, 3);
    std::vector<float> got(static_cast<size_t>(shape.tokens * input.width()), NAN);
    std::vector<float> want = got;
    for (const float scale : {2.0f, 0.5f}) {
      AttentionParams params = input.params(want.data());
      params.scale = scale;
      run_attention(scalar_attention(), params, 1);
      for (const Emulated& one : emulated()) {
        const bool exact = one.max < 1e-3;
        // Scores of order 100 mean nothing once queries are rounded to bf16.
        if (!one.variant.accepts(type, type) || (scale > 1 && !exact)) continue;
        params.out = got.data();
        run_attention(one.variant, params, 1);
        double worst = 0;
        for (size_t i = 0; i < got.size(); ++i) {
          worst = std::max(worst, std::abs(static_cast<double>(got[i]) - static_cast<double>(want[i])));
        }
        EXPECT_LE(worst, exact ? 1e-3 : 1e-1) << one.variant.name << " scale=" << scale;
      }
    }
  }
}

TEST(Lanes, DoNotDependOnWorkersNorOnHowThePromptIsCut) {
  AttentionShape shape{.head_dim = 64, .kv_heads = 2, .group = 3, .tokens = 150, .context = 400, .window = 170};
  shape.key_type = shape.value_type = DType::kBF16;
  RandomAttention input(shape, 71);
  for (const Emulated& one : emulated()) {
    const std::vector<float> whole = result_of(one.variant, input, nullptr);
    EXPECT_TRUE(result_of(one.variant, input, nullptr, 3) == whole) << one.variant.name;
    std::vector<float> cut(whole.size(), NAN);
    int64_t begin = 0;
    for (const int64_t count : {5, 1, 16, 2, 62, 9, 3, 48, 4}) {
      AttentionParams params = input.params(begin, count, cut.data() + begin * input.width());
      params.prompt = true;
      run_attention(one.variant, params, 2);
      begin += count;
    }
    ASSERT_EQ(begin, shape.tokens);
    EXPECT_TRUE(cut == whole) << one.variant.name;
  }
}

TEST(Lanes, ReadPlannedBlocks) {
  AttentionShape shape{.kv_heads = 1, .group = 2, .tokens = 64, .context = 320, .page_slots = 16};
  BlockPlan plan;
  plan.grid = {.segment = 64, .block = 8};
  plan.kv_heads = 1;
  plan.first_segment = 4;
  plan.num_segments = 1;
  plan.dense = {0};
  plan.blocks = {0, 3, 4, 9, 30, 31};
  plan.offsets = {0, 6};
  for (const DType type : {DType::kF32, DType::kBF16}) {
    shape.key_type = shape.value_type = type;
    check(shape, 5, &plan);
  }
}

}  // namespace
}  // namespace ei::kernels
