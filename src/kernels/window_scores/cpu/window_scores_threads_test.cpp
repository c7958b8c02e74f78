// Window scores: every variant against the reference, over odd shapes, with one worker and with three.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>
#include <thread>

#include "kernels/window_scores/cpu/window_scores.h"
#include "kernels/window_scores/reference/attention_sums_reference.h"
#include "kernels/window_scores/reference/window_scores_reference.h"
#include "support/random_kv.h"

namespace ei::kernels {
namespace {

using Floats = std::vector<float>;

struct Shape {
  AttentionShape attention;  // tokens: the recorded queries
  int32_t behind = 0;        // how many positions the last query stands in front of the last slot
};

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  const AttentionShape& s = shape.attention;
  return out << "head_dim " << s.head_dim << ", " << s.kv_heads << " x " << s.group << " heads, " << s.tokens
             << " queries, " << s.context << " slots in pages of " << s.page_slots << ", " << dtype_name(s.key_type)
             << (s.compacted ? ", compacted" : "") << ", " << shape.behind << " behind";
}

template <typename Job>
void on_all(int workers, Job job) {
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(workers));
  for (int index = 0; index < workers; ++index) threads.emplace_back([=] { job(Worker{index, workers}); });
  for (std::thread& thread : threads) thread.join();
}

void run(const WindowVariant& variant, const WindowScoreParams& params, int workers) {
  AttentionScratch scratch(variant.scratch_bytes(params, workers) + kScratchHeader);
  WorkQueue queue;
  on_all(workers, [&](Worker worker) { variant.score(params, scratch.data(), queue, worker); });
  on_all(workers, [&](Worker worker) { variant.merge(params, scratch.data(), worker); });
}

class WindowScores : public testing::TestWithParam<Shape> {};

TEST_P(WindowScores, AreThoseOfTheReferenceForAnyNumberOfWorkers) {
  const AttentionShape& shape = GetParam().attention;
  RandomAttention random(shape, 3);
  const AttentionParams attention = random.params(nullptr);
  std::vector<int32_t> positions;
  for (int64_t i = 0; i < shape.tokens; ++i)
    positions.push_back(attention.first_position + static_cast<int32_t>(i) - GetParam().behind);
  WindowScoreParams params{.q = attention.q,
                           .q_stride = attention.q_stride,
                           .positions = positions.data(),
                           .window = shape.tokens,
                           .num_heads = attention.num_heads,
                           .scale = attention.scale,
                           .kv = attention.kv,
                           .score_stride = shape.context + 5};
  const auto size = static_cast<size_t>(params.score_stride * params.num_heads);
  const auto heads = static_cast<size_t>(params.num_heads);
  Floats expected(size, -1);
  Floats expected_entropy(heads, -1);
  params.scores = expected.data();
  params.entropy = expected_entropy.data();
  reference_window_scores(params);
  for (const WindowVariant* variant : window_variants()) {
    if (!variant->usable() || !variant->accepts(params.kv)) continue;
    SCOPED_TRACE(std::string(variant->name));
    Floats plain(size, -1);
    params.scores = plain.data();
    params.entropy = nullptr;
    run(*variant, params, 1);
    Floats alone(size, -1);
    Floats entropy(heads, -1);
    params.scores = alone.data();
    params.entropy = entropy.data();
    run(*variant, params, 1);
    EXPECT_EQ(plain, alone) << "with and without entropies";
    for (size_t head = 0; head < heads; ++head) ASSERT_NEAR(entropy[head], expected_entropy[head], 2e-5f) << head;
    for (size_t i = 0; i < size; ++i) {
      ASSERT_NEAR(alone[i], expected[i], 1e-7f + 2e-5f * std::abs(expected[i])) << "at " << i;
      if (expected[i] == 0 || expected[i] == -1) {
        ASSERT_EQ(alone[i], expected[i]) << "at " << i;
      }
    }
    Floats shared(size, -1);
    Floats shared_entropy(heads, -1);
    params.scores = shared.data();
    params.entropy = shared_entropy.data();
    run(*variant, params, 3);
    EXPECT_EQ(shared, alone);
    EXPECT_EQ(shared_entropy, entropy);
  }
}

void run_sums(const WindowVariant& variant, const AttentionSumParams& params, int workers) {
  AttentionScratch scratch(variant.sum_bytes(params, workers) + kScratchHeader);
  WorkQueue queue;
  on_all(workers, [&](Worker worker) { variant.add(params, scratch.data(), queue, worker); });
  on_all(workers, [&](Worker worker) { variant.merge_sums(params, scratch.data(), worker); });
}

// Bit for bit the same however the queries are cut, and on top of what was there.
TEST_P(WindowScores, AddUpToTheSameSumsForAnyCutAndAnyNumberOfWorkers) {
  const AttentionShape& shape = GetParam().attention;
  RandomAttention random(shape, 4);
  const AttentionParams attention = random.params(nullptr);
  std::vector<int32_t> positions;
  for (int64_t i = 0; i < shape.tokens; ++i)
    positions.push_back(attention.first_position + static_cast<int32_t>(i) - GetParam().behind);
  const int64_t stride = shape.context + 5;
  const std::vector<double> before(static_cast<size_t>(stride * attention.num_heads), 0.75);
  AttentionSumParams params{.queries = {.q = attention.q,
                                        .q_stride = attention.q_stride,
                                        .positions = positions.data(),
                                        .window = shape.tokens,
                                        .num_heads = attention.num_heads,
                                        .scale = attention.scale,
                                        .kv = attention.kv},
                            .before = before.data(),
                            .stride = stride};
  std::vector<int64_t> lengths;
  for (const KvHeadView& head : attention.kv.heads) {
    lengths.push_back(head.length);
    params.counted.push_back(head.length / 3);
  }
  std::vector<double> expected(before.size(), -1);
  params.sums = expected.data();
  reference_attention_sums(params);
  for (const WindowVariant* variant : window_variants()) {
    if (!variant->usable() || !variant->accepts(params.queries.kv)) continue;
    SCOPED_TRACE(std::string(variant->name));
    std::vector<double> whole(before.size(), -1);
    params.sums = whole.data();
    run_sums(*variant, params, 1);
    for (size_t i = 0; i < whole.size(); ++i)
      ASSERT_NEAR(whole[i], expected[i], 1e-6 + 2e-5 * std::abs(expected[i])) << "at " << i;
    std::vector<double> none(before.size(), -1);
    AttentionSumParams nobody = params;
    nobody.queries.window = 0;
    nobody.sums = none.data();
    run_sums(*variant, nobody, 2);
    for (size_t i = 0; i < none.size(); ++i) {
      const auto head = static_cast<int64_t>(i) / stride * std::ssize(lengths) / attention.num_heads;
      const auto slot = static_cast<int64_t>(i) % stride;
      const auto at = static_cast<size_t>(head);
      const double carried_on = slot >= lengths[at] ? -1 : slot < params.counted[at] ? 0.75 : 0;
      ASSERT_EQ(none[i], carried_on) << "sums of no queries, at " << i;
    }
    for (const int64_t cut : {int64_t{1}, int64_t{5}, int64_t{16}}) {
      std::vector<double> pieces(before.size(), -1);
      AttentionSumParams piece = params;
      piece.sums = pieces.data();
      for (int64_t row = 0; row < shape.tokens; row += cut) {
        piece.queries.q = attention.q + row * attention.q_stride;
        piece.queries.positions = positions.data() + row;
        piece.queries.window = std::min(cut, shape.tokens - row);
        run_sums(*variant, piece, 2);
        piece.before = pieces.data();
        piece.counted = lengths;
      }
      EXPECT_EQ(pieces, whole) << "in pieces of " << cut;
    }
  }
}

// A ranking breaks ties by the slot: equal keys must not come out of different tiles with different bits.
TEST(WindowScoresTies, EqualKeysScoreEquallyWhereverTheyLie) {
  constexpr int64_t kPeriod = 90;  // no multiple of a tile
  constexpr int64_t kRepeated = 5 * kPeriod;
  for (const DType type : {DType::kF32, DType::kBF16, DType::kQ8_0}) {
    RandomAttention random({.head_dim = 64, .group = 2, .tokens = 20, .context = 600, .key_type = type}, 8);
    const AttentionParams attention = random.params(nullptr);
    const size_t row = dtype_row_bytes(type, 64);
    const auto key = [&](int64_t slot) {
      const void* page = attention.kv.heads[0].key_pages[slot / attention.kv.page_slots];
      return static_cast<std::byte*>(const_cast<void*>(page)) +
             static_cast<size_t>(slot % attention.kv.page_slots) * row;
    };
    for (int64_t slot = kPeriod; slot < kRepeated; ++slot) std::memcpy(key(slot), key(slot % kPeriod), row);
    std::vector<int32_t> positions(20);
    std::iota(positions.begin(), positions.end(), attention.first_position);
    Floats scores(2 * 600, -1);
    const WindowScoreParams params{.q = attention.q,
                                   .q_stride = attention.q_stride,
                                   .positions = positions.data(),
                                   .window = 20,
                                   .num_heads = 2,
                                   .scale = attention.scale,
                                   .kv = attention.kv,
                                   .scores = scores.data(),
                                   .score_stride = 600};
    for (const WindowVariant* variant : window_variants()) {
      if (!variant->usable() || !variant->accepts(params.kv)) continue;
      run(*variant, params, 2);
      for (int64_t slot = kPeriod; slot < kRepeated; ++slot)
        ASSERT_EQ(scores[static_cast<size_t>(slot)], scores[static_cast<size_t>(slot % kPeriod)])
            << variant->name << ", slot " << slot;
    }
  }
}

AttentionShape shape_of(int32_t head_dim, int32_t kv_heads, int32_t group, int64_t queries, int64_t context) {
  return {.head_dim = head_dim, .kv_heads = kv_heads, .group = group, .tokens = queries, .context = context};
}

std::vector<Shape> shapes() {
  std::vector<Shape> all = {
      {shape_of(64, 2, 3, 32, 700)}, {shape_of(64, 1, 1, 1, 1)},     {shape_of(8, 1, 2, 17, 63)},
      {shape_of(80, 2, 1, 33, 129)}, {shape_of(128, 1, 4, 16, 257)}, {shape_of(256, 1, 1, 5, 64)},
      {shape_of(12, 2, 2, 7, 90)},   {shape_of(64, 2, 2, 32, 5000)},
  };
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].attention.key_type = std::array{DType::kF32, DType::kF16, DType::kBF16}[i % 3];
    all[i].attention.page_slots = i % 2 == 0 ? 128 : 24;
  }
  for (Shape shape : {Shape{shape_of(64, 2, 3, 20, 400)}, Shape{shape_of(96, 1, 1, 33, 130)}}) {
    shape.attention.key_type = DType::kQ8_0;
    shape.attention.page_slots = 120;
    all.push_back(shape);
  }
  const size_t plain = all.size();
  for (size_t i = 0; i < plain; ++i) {
    Shape more = all[i];
    more.attention.compacted = true;
    all.push_back(more);
    more.behind = 3;
    all.push_back(more);
    more.behind = static_cast<int32_t>(more.attention.context) + 1;  // nobody sees anything
    all.push_back(more);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Shapes, WindowScores, testing::ValuesIn(shapes()));

TEST(WindowScoresChoice, TakesTheNamedVariantOrOneBehindIt) {
  const KvView even{.key_type = DType::kF32, .head_dim = 64, .heads = {}};
  const KvView odd{.key_type = DType::kF32, .head_dim = 13, .heads = {}};
  EXPECT_EQ(choose_window("scalar", even).name, "scalar");
  EXPECT_EQ(choose_window("", odd).name, "scalar");
  for (const WindowVariant* variant : window_variants()) {
    const WindowVariant& chosen = choose_window(variant->name, even);
    EXPECT_TRUE(chosen.usable() && chosen.accepts(even)) << variant->name;
    if (variant->usable() && variant->accepts(even)) {
      EXPECT_EQ(chosen.name, variant->name);
    }
  }
}

}  // namespace
}  // namespace ei::kernels
