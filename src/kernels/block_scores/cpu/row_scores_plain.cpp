#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/attention/cpu/flash.h"
#include "kernels/block_scores/cpu/block_scores.h"
#include "kernels/simd/wide.h"

namespace ei::kernels {
namespace {

// The scores of one segment and kv_head, row by row.
class PlainSegment {
 public:
  PlainSegment(const RowScoreParams& params, int32_t kv_head, int32_t i)
      : params_(params),
        kv_(params.kv),
        kv_head_(kv_head),
        group_(params.num_heads / params.rows.kv_heads),
        visible_(params.rows.visible(i)),
        block_(params.rows.grid.block),
        segment_begin_(int64_t{params.rows.first_segment + i} * params.rows.grid.segment),
        scores_(params.scores + params.rows.offset(kv_head, i)) {
    std::fill_n(scores_, visible_, params.kind == RowScore::kGroupPeak ? kNoScore : 0.0f);
  }

  void run() {
    const int64_t first = std::max<int64_t>(segment_begin_, params_.first_position) - params_.first_position;
    const int64_t last = std::min(segment_begin_ + params_.rows.grid.segment - params_.first_position, params_.tokens);
    for (int64_t token = first; token < last; ++token) {
      compute_logits(token);
      for (int64_t row = 0; row < queries(); ++row) {
        float* logits = logits_.data() + row * length_;
        if (params_.kind == RowScore::kGroupPeak) {
          add_peaks(logits);
        } else {
          add_mass(logits);
        }
      }
    }
  }

 private:
  int64_t queries() const { return params_.kind == RowScore::kGroupPeak ? 1 : group_; }

  // All queries of one token share the loaded keys.
  void compute_logits(int64_t token) {
    const int64_t dim = kv_.head_dim;
    length_ = params_.first_position + token + 1;
    const float* q = params_.q + token * params_.q_stride + kv_head_ * group_ * dim;
    if (params_.kind == RowScore::kGroupPeak) {
      mean_.assign(static_cast<size_t>(dim), 0.0f);
      for (int64_t g = 0; g < group_; ++g)
        for (int64_t d = 0; d < dim; ++d) mean_[static_cast<size_t>(d)] += q[g * dim + d] / static_cast<float>(group_);
      q = mean_.data();
    }
    logits_.resize(static_cast<size_t>(queries() * length_));
    key_.resize(static_cast<size_t>(dim));
    const KvHeadView& head = kv_.heads[static_cast<size_t>(kv_head_)];
    const size_t row_bytes = dtype_row_bytes(kv_.key_type, dim);
    for (int64_t slot = 0; slot < length_; ++slot) {
      const auto* page = static_cast<const std::byte*>(head.key_pages[slot / kv_.page_slots]);
      load_row(page + static_cast<size_t>(slot % kv_.page_slots) * row_bytes, kv_.key_type, dim, key_.data());
      for (int64_t row = 0; row < queries(); ++row)
        logits_[static_cast<size_t>(row * length_ + slot)] = params_.scale * dot(q + row * dim, key_.data(), dim);
    }
  }

  void add_peaks(float* logits) {
    for (int64_t j = 0; j < visible_; ++j)
      logits[j] = *std::max_element(logits + j * block_, logits + (j + 1) * block_);
    std::copy(logits + segment_begin_, logits + length_, logits + visible_);
    const float normaliser = log_sum(logits, visible_ + length_ - segment_begin_);
    for (int64_t j = 0; j < visible_; ++j) scores_[j] = std::max(scores_[j], logits[j] - normaliser);
  }

  void add_mass(float* logits) {
    const float normaliser = log_sum(logits, length_);
    for (int64_t j = 0; j < visible_; ++j) {
      float mass = 0;
      for (int64_t slot = j * block_; slot < (j + 1) * block_; ++slot) mass += std::exp(logits[slot] - normaliser);
      scores_[j] = params_.kind == RowScore::kMassSum ? scores_[j] + mass : std::max(scores_[j], mass);
    }
  }

  static float log_sum(const float* values, int64_t count) {
    const float max = *std::max_element(values, values + count);
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(std::exp(values[i] - max));
    return max + static_cast<float>(std::log(sum));
  }

  const RowScoreParams& params_;
  const KvView& kv_;
  const int64_t kv_head_;
  const int64_t group_;
  const int64_t visible_;
  const int64_t block_;
  const int64_t segment_begin_;
  float* scores_;
  int64_t length_ = 0;
  std::vector<float> logits_;  // [queries, length]
  std::vector<float> mean_;
  std::vector<float> key_;
};

}  // namespace

void row_scores_plain(const RowScoreParams& params, WorkQueue& queue) {
  const BlockRows& rows = params.rows;
  for (int64_t piece = queue.take(); piece < int64_t{rows.kv_heads} * rows.num_segments; piece = queue.take()) {
    const auto h = static_cast<int32_t>(piece % rows.kv_heads);
    const auto i = static_cast<int32_t>(piece / rows.kv_heads);
    if (params.wanted == nullptr || params.wanted[i] != 0) PlainSegment(params, h, i).run();
  }
}

}  // namespace ei::kernels
