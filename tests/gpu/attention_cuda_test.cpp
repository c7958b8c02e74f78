#include "kernels/attention/cuda/attention_cuda.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "gpu/attention_case.h"

namespace ei {
namespace {

using kernels::AttentionShape;
using kernels::cuda::KernelSet;

// Inputs of unit variance (queries 1.5), outputs of order one. What differs from the reference is the rounding of
// weights and outputs to 16 bits: relative error of all outputs together, and the largest one.
struct Bounds {
  double relative;
  double worst;
};
Bounds bounds_of(DType type) { return type == DType::kF16 ? Bounds{8e-4, 6e-3} : Bounds{5e-3, 4e-2}; }
constexpr double kLogSumBound = 2e-3;

std::vector<KernelSet> sets() {
  const auto traits = kernels::cuda::device_traits(0);
  if (!traits.ok()) return {};
  if (traits->set == KernelSet::kHopper) return {KernelSet::kHopper, KernelSet::kPortable};
  return {KernelSet::kPortable};
}

void expect_close(const GpuOutcome& outcome, DType type) {
  EXPECT_LE(outcome.relative, bounds_of(type).relative);
  EXPECT_LE(outcome.worst, bounds_of(type).worst);
  EXPECT_LE(outcome.worst_log_sum, kLogSumBound);
}

constexpr int32_t kDims[] = {64, 96, 128, 256};
constexpr DType kTypes[] = {DType::kBF16, DType::kF16};

// Every shape in every head_dim, type and set, with one call each.
template <typename Run>
void for_each_case(std::vector<AttentionShape> shapes, const GpuCall& wanted, Run run) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  uint64_t seed = 1000;
  for (AttentionShape shape : shapes) {
    for (const int32_t dim : kDims) {
      for (const DType type : kTypes) {
        shape.head_dim = dim;
        shape.key_type = shape.value_type = type;
        AttentionCase attention(shape, ++seed);
        for (const KernelSet set : sets()) {
          GpuCall call = wanted;
          call.set = set;
          if (call.q_type != DType::kF32) call.q_type = type;
          if (call.out_type != DType::kF32) call.out_type = type;
          SCOPED_TRACE(attention.describe(call));
          expect_close(run(attention, call), type);
        }
      }
    }
  }
}

GpuOutcome prefill(AttentionCase& attention, const GpuCall& call) { return attention.prefill(call); }
GpuOutcome decode(AttentionCase& attention, const GpuCall& call) { return attention.decode(call); }

const std::vector<AttentionShape> kPrompts = {
    {.kv_heads = 1, .group = 1, .tokens = 1, .context = 1, .page_slots = 8},
    {.kv_heads = 2, .group = 4, .tokens = 37, .context = 37, .page_slots = 8},
    {.kv_heads = 2, .group = 7, .tokens = 131, .context = 517, .page_slots = 24},
    {.kv_heads = 1, .group = 3, .tokens = 250, .context = 900, .page_slots = 128},
    {.kv_heads = 3, .group = 16, .tokens = 9, .context = 264, .page_slots = 64},
};
const std::vector<AttentionShape> kWindows = {
    {.kv_heads = 2, .group = 1, .tokens = 64, .context = 700, .page_slots = 128, .window = 50},
    {.kv_heads = 1, .group = 3, .tokens = 200, .context = 333, .page_slots = 16, .window = 8},
    {.kv_heads = 1, .group = 2, .tokens = 70, .context = 300, .page_slots = 40, .window = 1000},
};
const std::vector<AttentionShape> kCompacted = {
    {.kv_heads = 3, .group = 4, .tokens = 33, .context = 400, .page_slots = 32, .compacted = true},
    {.kv_heads = 2, .group = 5, .tokens = 90, .context = 500, .page_slots = 128, .window = 100, .compacted = true},
};

TEST(GpuOracle, IsTheScalarReference) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  for (AttentionShape shape : {kPrompts[2], kWindows[1], kCompacted[1]}) {
    shape.head_dim = 96;
    shape.key_type = shape.value_type = DType::kF16;
    EXPECT_LE(AttentionCase(shape, 77).oracle_error(), 1e-6);
  }
}

TEST(GpuPrefill, IsTheReferenceOverWholeCaches) { for_each_case(kPrompts, {}, prefill); }
TEST(GpuPrefill, IsTheReferenceUnderSlidingWindows) { for_each_case(kWindows, {}, prefill); }
TEST(GpuPrefill, IsTheReferenceOverCompactedCaches) { for_each_case(kCompacted, {}, prefill); }
TEST(GpuPrefill, TakesAndGivesF32) {
  for_each_case({kPrompts[1], kPrompts[4]}, {.q_type = DType::kF32, .out_type = DType::kF32}, prefill);
}
TEST(GpuPrefill, CapsScores) { for_each_case({kPrompts[2], kWindows[1]}, {.softcap = 3}, prefill); }

TEST(GpuPrefill, ReadsThePlannedBlocksAlone) {
  const std::vector<AttentionShape> shapes = {
      {.kv_heads = 2, .group = 4, .tokens = 256, .context = 1024, .page_slots = 128},
      {.kv_heads = 3, .group = 1, .tokens = 100, .context = 715, .page_slots = 24},
      {.kv_heads = 1, .group = 7, .tokens = 150, .context = 640, .page_slots = 64},
  };
  for_each_case(shapes, {.segment = 64, .block = 8}, prefill);
  for_each_case(shapes, {.segment = 64, .block = 16, .ordered = true}, prefill);
  for_each_case(shapes, {.segment = 192, .block = 24, .dense_segments = true}, prefill);
  for_each_case(shapes, {.segment = 128, .block = 64, .ordered = true, .dense_segments = true}, prefill);
}
TEST(GpuPrefill, ReadsPlannedBlocksUnderAWindow) {
  for_each_case({{.kv_heads = 2, .group = 2, .tokens = 128, .context = 640, .page_slots = 128, .window = 200}},
                {.segment = 64, .block = 8}, prefill);
}

TEST(GpuDecode, IsTheReferenceOverWholeCaches) {
  for_each_case({{.kv_heads = 1, .group = 1, .tokens = 1, .context = 1, .page_slots = 8},
                 {.kv_heads = 8, .group = 4, .tokens = 1, .context = 4097, .page_slots = 128},
                 {.kv_heads = 2, .group = 7, .tokens = 1, .context = 1999, .page_slots = 24},
                 {.kv_heads = 40, .group = 1, .tokens = 2, .context = 333, .page_slots = 128},
                 {.kv_heads = 1, .group = 32, .tokens = 3, .context = 700, .page_slots = 64}},
                {}, decode);
}
TEST(GpuDecode, IsTheReferenceUnderSlidingWindowsAndOverCompactedCaches) {
  for_each_case(
      {{.kv_heads = 2, .group = 4, .tokens = 1, .context = 3000, .page_slots = 128, .window = 512},
       {.kv_heads = 2, .group = 2, .tokens = 4, .context = 1200, .page_slots = 16, .window = 60},
       {.kv_heads = 8, .group = 4, .tokens = 1, .context = 5000, .page_slots = 128, .compacted = true},
       {.kv_heads = 3, .group = 2, .tokens = 3, .context = 900, .page_slots = 8, .window = 150, .compacted = true}},
      {}, decode);
}
TEST(GpuDecode, CapsScoresAndTakesF32) {
  for_each_case({{.kv_heads = 2, .group = 4, .tokens = 2, .context = 1500, .page_slots = 128}},
                {.q_type = DType::kF32, .out_type = DType::kF32, .softcap = 3}, decode);
}

// 0 .. kv_heads * segments ordered by length, with `by_head` inside every kv_head.
void check_order(int32_t segments, bool by_head) {
  constexpr int32_t kHeads = 3;
  Random random(5);
  std::vector<int64_t> offsets = {0};
  for (int i = 0; i < kHeads * segments; ++i) offsets.push_back(offsets.back() + random.below(40));
  std::vector<uint8_t> dense(static_cast<size_t>(segments), 0);
  dense[7] = 1;
  const DeviceArray<int64_t> device_offsets(offsets);
  const DeviceArray<uint8_t> device_dense(dense);
  const DeviceArray<int32_t> order(static_cast<size_t>(kHeads * segments));
  kernels::cuda::DevicePlan plan{64, 8, 100, segments, device_dense.data(), device_offsets.data(), nullptr, nullptr};
  ASSERT_TRUE(kernels::cuda::order_lists(plan, kHeads, order.data(), nullptr).ok());
  std::vector<int32_t> want(static_cast<size_t>(kHeads * segments));
  for (size_t i = 0; i < want.size(); ++i) want[i] = static_cast<int32_t>(i);
  std::stable_sort(want.begin(), want.end(), [&](int32_t a, int32_t b) {
    const auto length = [&](int32_t list) {
      const auto at = static_cast<size_t>(list);
      return list % segments == 7 ? int64_t{107} * 8 : offsets[at + 1] - offsets[at];
    };
    if (by_head && a / segments != b / segments) return a / segments < b / segments;
    return length(a) > length(b);
  });
  EXPECT_EQ(order.read(), want);
}

TEST(GpuOrder, BeginsWithTheLongestLists) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  check_order(16, false);
  check_order(211, true);
}

}  // namespace
}  // namespace ei
