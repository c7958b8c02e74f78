// The reference of the row scores and of the choice of blocks (block_scores.h): slow, obvious, sums in double.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"
#include "base/top_indices.h"
#include "kernels/block_scores/reference/block_scores_reference.h"

namespace ei::kernels {
namespace {

// Logits of one query against the slots [0, position] of one kv_head.
std::vector<double> logits_of(const std::vector<double>& q, const KvView& kv, int64_t kv_head, int64_t position,
                              double scale) {
  const KvHeadView& head = kv.heads[static_cast<size_t>(kv_head)];
  EI_CHECK_LT(position, head.length);
  std::vector<double> logits(static_cast<size_t>(position) + 1);
  for (int64_t slot = 0; slot <= position; ++slot) {
    double sum = 0;
    for (int64_t d = 0; d < kv.head_dim; ++d) {
      const int64_t at = slot % kv.page_slots * kv.head_dim + d;
      sum += q[static_cast<size_t>(d)] *
             static_cast<double>(load_element(head.key_pages[slot / kv.page_slots], kv.key_type, at));
    }
    logits[static_cast<size_t>(slot)] = scale * sum;
  }
  return logits;
}

double log_sum_exp(const std::vector<double>& values) {
  const double max = *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (const double value : values) sum += std::exp(value - max);
  return max + std::log(sum);
}

class RowScorer {
 public:
  RowScorer(const RowScoreParams& params, int32_t kv_head, int32_t i)
      : params_(params),
        kv_head_(kv_head),
        group_(params.num_heads / params.rows.kv_heads),
        visible_(params.rows.visible(i)),
        block_(params.rows.grid.block),
        far_(visible_ * block_),
        scores_(params.scores + params.rows.offset(kv_head, i)) {
    const float worst = params.kind == RowScore::kGroupPeak ? -std::numeric_limits<float>::infinity() : 0.0f;
    std::fill_n(scores_, visible_, worst);
  }

  void add_row(int64_t token) {
    if (params_.kind == RowScore::kGroupPeak) {
      add_peaks(token);
    } else {
      for (int64_t g = 0; g < group_; ++g) add_mass(token, g);
    }
  }

 private:
  std::vector<double> query(int64_t token, int64_t first, int64_t count) const {
    std::vector<double> mean(static_cast<size_t>(params_.kv.head_dim));
    for (int64_t g = first; g < first + count; ++g) {
      const float* q = params_.q + token * params_.q_stride + (kv_head_ * group_ + g) * params_.kv.head_dim;
      for (size_t d = 0; d < mean.size(); ++d) mean[d] += static_cast<double>(q[d]) / static_cast<double>(count);
    }
    return mean;
  }

  void add_peaks(int64_t token) {
    const int64_t position = params_.first_position + token;
    const auto logits =
        logits_of(query(token, 0, group_), params_.kv, kv_head_, position, static_cast<double>(params_.scale));
    std::vector<double> attended;
    for (int64_t j = 0; j < visible_; ++j) {
      const auto begin = logits.begin() + j * block_;
      attended.push_back(*std::max_element(begin, begin + block_));
    }
    attended.insert(attended.end(), logits.begin() + far_, logits.end());
    const double normaliser = log_sum_exp(attended);
    for (int64_t j = 0; j < visible_; ++j)
      scores_[j] = std::max(scores_[j], static_cast<float>(attended[static_cast<size_t>(j)] - normaliser));
  }

  void add_mass(int64_t token, int64_t g) {
    const int64_t position = params_.first_position + token;
    const auto logits =
        logits_of(query(token, g, 1), params_.kv, kv_head_, position, static_cast<double>(params_.scale));
    const double normaliser = log_sum_exp(logits);
    for (int64_t j = 0; j < visible_; ++j) {
      double mass = 0;
      for (int64_t slot = j * block_; slot < (j + 1) * block_; ++slot)
        mass += std::exp(logits[static_cast<size_t>(slot)] - normaliser);
      scores_[j] = params_.kind == RowScore::kMassSum ? scores_[j] + static_cast<float>(mass)
                                                      : std::max(scores_[j], static_cast<float>(mass));
    }
  }

  const RowScoreParams& params_;
  const int64_t kv_head_;
  const int64_t group_;
  const int64_t visible_;
  const int64_t block_;
  const int64_t far_;  // slots before the segment
  float* scores_;
};

}  // namespace

void reference_row_scores(const RowScoreParams& params) {
  const BlockRows& rows = params.rows;
  for (int32_t h = 0; h < rows.kv_heads; ++h) {
    for (int32_t i = 0; i < rows.num_segments; ++i) {
      if (params.wanted != nullptr && params.wanted[i] == 0) continue;
      RowScorer scorer(params, h, i);
      for (int64_t token = 0; token < params.tokens; ++token)
        if ((params.first_position + token) / rows.grid.segment == rows.first_segment + i) scorer.add_row(token);
    }
  }
}

void reference_select_blocks(const SelectBlocksParams& params) {
  BlockPlan& plan = *params.plan;
  std::vector<uint64_t> scratch;
  std::vector<int32_t> chosen;
  for (int32_t h = 0; h < params.rows.kv_heads; ++h) {
    for (int32_t i = 0; i < params.rows.num_segments; ++i) {
      const auto list = static_cast<size_t>(h * params.rows.num_segments + i);
      chosen.clear();
      append_top_indices({params.values + params.rows.offset(h, i), static_cast<size_t>(params.rows.visible(i))},
                         plan.offsets[list + 1] - plan.offsets[list], scratch, chosen);
      std::copy(chosen.begin(), chosen.end(), plan.blocks.begin() + plan.offsets[list]);
    }
  }
}

}  // namespace ei::kernels
