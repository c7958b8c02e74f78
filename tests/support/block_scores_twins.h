// Random keys and queries of odd shapes, with the parameters of the profiler's operations on them, for tests that hold
// the fast ones against the reference.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <ostream>
#include <thread>
#include <vector>

#include "base/workers.h"
#include "kernels/block_scores/block_scores.h"
#include "support/random_kv.h"

namespace ei::kernels {

using Floats = std::vector<float>;

inline void on_workers(int count, const std::function<void(Worker)>& job) {
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(count));
  for (int index = 0; index < count; ++index) threads.emplace_back([&, index] { job(Worker{index, count}); });
  for (std::thread& thread : threads) thread.join();
}

struct ProfileShape {
  int32_t head_dim;
  int32_t kv_heads;
  int32_t group;
  int32_t segment;
  int32_t block;
  int64_t context;
  int64_t tokens;
  DType type;
};

inline std::ostream& operator<<(std::ostream& out, const ProfileShape& s) {
  return out << "head_dim " << s.head_dim << ", " << s.kv_heads << " x " << s.group << " heads, segment " << s.segment
             << ", block " << s.block << ", rows " << s.tokens << " of " << s.context << ", " << dtype_name(s.type);
}

class ProfileTwins : public testing::TestWithParam<ProfileShape> {
 protected:
  ProfileTwins()
      : shape_(GetParam()),
        random_({.head_dim = shape_.head_dim,
                 .kv_heads = shape_.kv_heads,
                 .group = shape_.group,
                 .tokens = shape_.tokens,
                 .context = shape_.context,
                 .page_slots = 24,
                 .key_type = shape_.type},
                11) {
    attention_ = random_.params(nullptr);
    const int64_t first = attention_.first_position;
    rows_.grid = {shape_.segment, shape_.block};
    rows_.kv_heads = shape_.kv_heads;
    rows_.first_segment = static_cast<int32_t>(first / shape_.segment);
    rows_.num_segments = static_cast<int32_t>((shape_.context - 1) / shape_.segment) - rows_.first_segment + 1;
    rows_.stride = rows_.visible(rows_.num_segments - 1) + 3;
  }

  size_t row_floats() const { return static_cast<size_t>(rows_.kv_heads * rows_.num_segments * rows_.stride); }
  RowScoreParams row_params(RowScore kind, Floats& scores) const {
    return {.kind = kind,
            .rows = rows_,
            .q = attention_.q,
            .q_stride = attention_.q_stride,
            .tokens = shape_.tokens,
            .first_position = attention_.first_position,
            .num_heads = attention_.num_heads,
            .scale = attention_.scale,
            .wanted = nullptr,
            .kv = random_.view(),
            .scores = scores.data()};
  }

  PeakScoreParams peak_params(int32_t segment, const std::vector<BlockRanking>& ranking, Floats& scores,
                              std::vector<AttentionSample>& samples) {
    PeakScoreParams params{.rows = rows_,
                           .segment = segment,
                           .q = attention_.q,
                           .q_stride = attention_.q_stride,
                           .tokens = shape_.tokens,
                           .first_position = attention_.first_position,
                           .num_heads = attention_.num_heads,
                           .scale = attention_.scale,
                           .kv = random_.view(),
                           .keys = {},
                           .ranking = ranking.data(),
                           .most_queries = attention_.num_heads / shape_.kv_heads,
                           .scores = scores.data(),
                           .samples = samples.data()};
    params.keys.super_blocks = std::gcd(rows_.grid.blocks_per_segment(), 4);
    return params;
  }

  const ProfileShape shape_;
  RandomAttention random_;
  AttentionParams attention_;
  BlockRows rows_;
};

inline auto profile_shapes() {
  using Shape = ProfileShape;
  return testing::Values(Shape{64, 2, 3, 64, 8, 400, 100, DType::kBF16}, Shape{32, 1, 1, 32, 16, 128, 128, DType::kF32},
                         Shape{40, 3, 2, 48, 8, 301, 90, DType::kF16}, Shape{128, 1, 8, 40, 4, 160, 37, DType::kBF16},
                         Shape{256, 2, 1, 64, 32, 200, 1, DType::kBF16}, Shape{72, 1, 4, 30, 5, 90, 61, DType::kF32},
                         Shape{96, 2, 2, 64, 8, 400, 100, DType::kQ8_0});
}

}  // namespace ei::kernels
