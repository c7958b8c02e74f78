// What KV methods measure of keys and values: on the GPU beside the host's reading of the same cache.
#include <gtest/gtest.h>

#include "gpu/engine/sides.h"
#include "kv/expected_attention.h"
#include "kv/key_measure.h"
#include "kv/store.h"

namespace ei::testing {
namespace {

struct Filled {
  Filled(const Side& side, DType type, int32_t head_dim)
      : store(*side.backend, {.layers = 1, .kv_heads = 3, .head_dim = head_dim, .key_type = type, .value_type = type}) {
    constexpr int64_t kTokens = 700;
    EXPECT_TRUE(store.reserve(kTokens).ok());
    store.append(0, kTokens);
    const KvView view = store.view(0);
    const KvPageShape shape{view.page_slots, head_dim, type, type};
    uint64_t seed = 1;
    for (const KvHeadView& head : view.heads) {
      for (int64_t slot = 0; slot < head.length; slot += view.page_slots) {
        const int64_t count = std::min<int64_t>(view.page_slots, head.length - slot);
        std::vector<std::byte> rows[2];
        for (std::vector<std::byte>& of : rows) {
          const std::vector<float> values = normals(count * head_dim, seed++);
          of.resize(values.size() * dtype_bytes(host_type(type)));
          for (size_t i = 0; i < values.size(); ++i)
            store_element(of.data(), host_type(type), static_cast<int64_t>(i), values[i]);
        }
        void* page = const_cast<void*>(head.key_pages[slot / view.page_slots]);
        EXPECT_TRUE(side.backend->write_slots(shape, page, count, rows[0].data(), rows[1].data()).ok());
      }
    }
    for (int h = 1; h < 3; ++h) {
      KeepList keep;
      for (int32_t slot = 0; slot < kTokens; ++slot)
        if (slot % (h + 2) != 1) keep.push_back(slot);
      EXPECT_TRUE(store.compact(0, h, keep).ok());
    }
  }
  kv::Store store;
};

struct Shape {
  DType type;
  int32_t head_dim;
};
constexpr Shape kShapes[] = {{DType::kBF16, 128}, {DType::kF16, 64},   {DType::kF32, 40}, {DType::kBF16, 96},
                             {DType::kF8, 128},   {DType::kBF16, 256}, {DType::kF8, 80}};

TEST(CudaMeasures, OfKeysAreTheHosts) {
  EI_NEEDS_GPU();
  const Side side("cuda");
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(::testing::Message() << dtype_name(shape.type) << " " << shape.head_dim);
    const Filled filled(side, shape.type, shape.head_dim);
    const KvView view = filled.store.view(0);
    for (const policy::KeyMeasure measure : {policy::KeyMeasure::kNorm, policy::KeyMeasure::kCosine}) {
      const auto host = kv::measure_keys(*side.backend, view, measure, 701);
      const auto device = kv::measure_keys(*side.stream, view, measure, 701);
      ASSERT_TRUE(host.ok() && device.ok());
      EXPECT_LE(relative_error(*device, *host), 1e-5);
    }
  }
}

// As ratings read them: on the device, the smallest measures worth most.
TEST(CudaMeasures, OfKeysTurnedRoundAreTheirNegatives) {
  EI_NEEDS_GPU();
  const Side side("cuda");
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(::testing::Message() << dtype_name(shape.type) << " " << shape.head_dim);
    const Filled filled(side, shape.type, shape.head_dim);
    const KvView view = filled.store.view(0);
    for (const policy::KeyMeasure measure : {policy::KeyMeasure::kNorm, policy::KeyMeasure::kCosine}) {
      const auto measured = kv::measure_keys(*side.stream, view, measure, 701);
      ASSERT_TRUE(measured.ok());
      const Matrix scores = side.put(0, std::vector<float>(3 * 701, 0), 3, 701);
      kv::score_keys(*side.stream, view, measure, scores);
      std::vector<float> negatives = side.get(scores);
      for (float& one : negatives) one = -one;
      EXPECT_EQ(negatives, *measured);
    }
  }
}

TEST(CudaMeasures, OfSumsAreTheSumsRounded) {
  EI_NEEDS_GPU();
  const Side side("cuda");
  for (const int64_t slots : {1, 255, 700}) {
    constexpr int32_t kHeads = 5;
    constexpr int64_t kCapacity = 777;
    constexpr int64_t kStride = 703;
    std::vector<double> sums;
    Random random(8);
    for (int64_t i = 0; i < kHeads * kCapacity; ++i) sums.push_back(1000 * random.uniform());
    const Buffer memory = side.backend->allocate(sums.size() * sizeof(double)).value();
    ASSERT_TRUE(side.backend->copy_in(memory.data(), sums.data(), sums.size() * sizeof(double)).ok());
    const Matrix scores = side.put(0, std::vector<float>(kHeads * kStride, -1), kHeads, kStride);
    side.stream->sum_scores({.sums = static_cast<const double*>(memory.data()),
                             .sum_stride = kCapacity,
                             .num_heads = kHeads,
                             .slots = slots,
                             .scores = scores.data,
                             .stride = kStride});
    const std::vector<float> got = side.get(scores);
    for (int64_t head = 0; head < kHeads; ++head)
      for (int64_t slot = 0; slot < kStride; ++slot)
        ASSERT_EQ(got[static_cast<size_t>(head * kStride + slot)],
                  slot < slots ? static_cast<float>(sums[static_cast<size_t>(head * kCapacity + slot)]) : -1.0f);
  }
}

TEST(CudaMeasures, SumsThatStayAreThoseOfTheirSlots) {
  EI_NEEDS_GPU();
  const Side side("cuda");
  constexpr int64_t kRows = 3;
  constexpr int64_t kCapacity = 1777;
  for (const int32_t each : {1, 3, 700, 1500, 5000}) {  // all, some, the first alone, none
    KeepList keep;
    for (int32_t slot = each == 5000 ? each : 0; slot < 1500; slot += each) keep.push_back(slot);
    std::vector<double> sums;
    Random random(9);
    for (int64_t i = 0; i < kRows * kCapacity; ++i) sums.push_back(random.uniform());
    const Buffer memory = side.backend->allocate(2 * sums.size() * sizeof(double)).value();
    auto* rows = static_cast<double*>(memory.data());
    ASSERT_TRUE(side.backend->copy_in(rows, sums.data(), sums.size() * sizeof(double)).ok());
    ASSERT_TRUE(
        side.backend
            ->keep_sums({.sums = rows, .room = rows + sums.size(), .rows = kRows, .stride = kCapacity, .keep = keep})
            .ok());
    std::vector<double> got(sums.size());
    ASSERT_TRUE(side.backend->copy_out(got.data(), rows, sums.size() * sizeof(double)).ok());
    for (int64_t row = 0; row < kRows; ++row) {
      for (size_t i = 0; i < static_cast<size_t>(kCapacity); ++i) {
        const auto at = static_cast<size_t>(row * kCapacity);
        ASSERT_EQ(got[at + i], sums[at + (i < keep.size() ? static_cast<size_t>(keep[i]) : i)]) << each << ": " << i;
      }
    }
  }
}

TEST(CudaMeasures, OfExpectedAttentionAreTheHosts) {
  EI_NEEDS_GPU();
  const Side side("cuda");
  const Rope rope;
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(::testing::Message() << dtype_name(shape.type) << " " << shape.head_dim);
    const Filled filled(side, shape.type, shape.head_dim);
    constexpr int32_t kHeads = 6;
    const std::vector<float> queries = normals(int64_t{9} * kHeads * shape.head_dim, 50);
    const std::vector<int32_t> positions = {690, 691, 692, 693, 694, 695, 697, 698, 699};
    const kv::ExpectedParams params{.queries = queries,
                                    .positions = positions,
                                    .heads = kHeads,
                                    .scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim)),
                                    .rope = {.rope = &rope, .dims = shape.head_dim, .interleaved = false},
                                    .next_position = 700,
                                    .kv = filled.store.view(0),
                                    .stride = 703};
    const auto host = kv::expected_attention(*side.backend, params);
    const auto device = kv::expected_attention(*side.stream, params);
    ASSERT_TRUE(host.ok() && device.ok());
    EXPECT_LE(relative_error(*device, *host), 1e-4);
  }
}

}  // namespace
}  // namespace ei::testing
