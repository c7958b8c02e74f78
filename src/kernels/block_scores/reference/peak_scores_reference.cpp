// The reference of peak scores with different care (PeakScoreParams): slow, obvious, in double, without rounding.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/top_indices.h"
#include "kernels/block_scores/reference/block_scores_reference.h"

namespace ei::kernels {
namespace {

using Doubles = std::vector<double>;

double log_sum(const Doubles& values) {
  const double max = *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (const double value : values) sum += std::exp(value - max);
  return max + std::log(sum);
}

// One kv_head.
class CarefulHead {
 public:
  CarefulHead(const PeakScoreParams& params, int32_t h)
      : params_(params),
        h_(h),
        group_(params.num_heads / params.rows.kv_heads),
        dim_(params.kv.head_dim),
        block_(params.rows.grid.block),
        visible_(params.rows.visible(params.segment)),
        own_begin_(int64_t{params.rows.first_segment + params.segment} * params.rows.grid.segment),
        first_(std::max<int64_t>(own_begin_ - params.first_position, 0)),
        count_(std::min(own_begin_ + params.rows.grid.segment - params.first_position, params.tokens) - first_) {}

  void run() {
    float* scores = params_.scores + params_.rows.offset(h_, params_.segment);
    const HeadCare& care = params_.care[h_];
    if (care.probe) probe();
    if (care.latest) {
      for (int64_t j = 0; j < visible_; ++j) scores[j] = static_cast<float>(j == 0 ? 0 : j - visible_);
      return;
    }
    std::fill_n(scores, visible_, -std::numeric_limits<float>::infinity());
    const std::vector<Row> rows = asked_rows(care);
    const std::vector<int64_t> blocks = rated_blocks(care);
    for (const Row& row : rows) {
      const Doubles peaks = normalised_peaks(query(row, care.voices), row.token, blocks);
      for (size_t i = 0; i < blocks.size(); ++i)
        scores[blocks[i]] = std::max(scores[blocks[i]], static_cast<float>(peaks[i]));
    }
  }

 private:
  struct Row {
    int64_t token;
    int64_t voice;
  };

  double key(int64_t slot, int64_t d) const {
    const KvView& kv = params_.kv;
    const void* page = kv.heads[static_cast<size_t>(h_)].key_pages[slot / kv.page_slots];
    return static_cast<double>(load_element(page, kv.key_type, slot % kv.page_slots * dim_ + d));
  }
  double logit(const Doubles& q, int64_t slot) const {
    double sum = 0;
    for (int64_t d = 0; d < dim_; ++d) sum += q[static_cast<size_t>(d)] * key(slot, d);
    return sum * static_cast<double>(params_.scale);
  }

  Doubles mix(int64_t token, const Doubles& weights) const {
    Doubles q(static_cast<size_t>(dim_));
    for (int64_t g = 0; g < group_; ++g) {
      const float* head = params_.q + token * params_.q_stride + (h_ * group_ + g) * dim_;
      for (int64_t d = 0; d < dim_; ++d)
        q[static_cast<size_t>(d)] += weights[static_cast<size_t>(g)] * static_cast<double>(head[d]);
    }
    return q;
  }

  Doubles single(int64_t token, size_t head) const {
    Doubles weights(static_cast<size_t>(group_));
    weights[head] = 1;
    return mix(token, weights);
  }

  Doubles query(const Row& row, Voices voices) const {
    const auto group = static_cast<size_t>(group_);
    if (voices == Voices::kEach) return single(row.token, static_cast<size_t>(row.voice));
    if (voices == Voices::kMean) return mix(row.token, Doubles(group, 1.0 / static_cast<double>(group)));
    Doubles found;
    for (size_t g = 0; g < group; ++g) found.push_back(-log_sum(own_logits(single(row.token, g), row.token)));
    const double total = log_sum(found);
    for (double& weight : found) weight = std::exp(weight - total);
    return mix(row.token, found);
  }

  Doubles own_logits(const Doubles& q, int64_t token) const {
    Doubles logits;
    for (int64_t slot = own_begin_; slot <= params_.first_position + token; ++slot) logits.push_back(logit(q, slot));
    return logits;
  }

  double peak(const Doubles& q, int64_t j) const {
    double best = -std::numeric_limits<double>::infinity();
    for (int64_t slot = j * block_; slot < (j + 1) * block_; ++slot) best = std::max(best, logit(q, slot));
    return best;
  }

  std::vector<int64_t> all_blocks() const {
    std::vector<int64_t> blocks(static_cast<size_t>(visible_));
    std::iota(blocks.begin(), blocks.end(), int64_t{0});
    return blocks;
  }

  Doubles normalised_peaks(const Doubles& q, int64_t token, const std::vector<int64_t>& blocks) const {
    Doubles attended;
    for (const int64_t j : blocks) attended.push_back(peak(q, j));
    const Doubles own = own_logits(q, token);
    attended.insert(attended.end(), own.begin(), own.end());
    const double normaliser = log_sum(attended);
    attended.resize(blocks.size());
    for (double& value : attended) value -= normaliser;
    return attended;
  }

  // Bounds of the super-blocks, less what the row finds in its own segment and the first block.
  Doubles bounds(const Row& row, Voices voices) const {
    const Doubles q = query(row, voices);
    const int64_t width = params_.keys.super_blocks;
    const double found = log_sum({log_sum(own_logits(q, row.token)), peak(q, 0)});
    Doubles all;
    for (int64_t super = 0; super < visible_ / width; ++super) {
      double bound = 0;
      for (int64_t d = 0; d < dim_; ++d) {
        double high = -std::numeric_limits<double>::infinity();
        for (int64_t slot = super * width * block_; slot < (super + 1) * width * block_; ++slot)
          if (slot >= block_) high = std::max(high, q[static_cast<size_t>(d)] * key(slot, d));
        bound += std::isinf(high) ? 0 : high;
      }
      all.push_back(bound * static_cast<double>(params_.scale) - found);
    }
    return all;
  }

  // Rows by what they want, of each voice; on the way, what the super-blocks promise.
  std::vector<Row> asked_rows(const HeadCare& care) {
    const bool all = care.rows == 0 || care.rows >= count_;
    if (!all)
      promise_.assign(static_cast<size_t>(visible_ / params_.keys.super_blocks),
                      -std::numeric_limits<float>::infinity());
    const int64_t voices = num_voices(care.voices, group_);
    std::vector<Row> rows;
    for (int64_t voice = 0; voice < voices; ++voice) {
      std::vector<float> wants;
      for (int64_t row = 0; row < count_ && !all; ++row) {
        wants.push_back(want({first_ + row, voice}, care.voices));
        if (params_.wanting != nullptr)
          params_.wanting[h_ * count_ * params_.most_voices + row * voices + voice] = wants.back();
      }
      std::vector<uint64_t> scratch;
      std::vector<int32_t> chosen(all ? static_cast<size_t>(count_) : 0);
      std::iota(chosen.begin(), chosen.end(), 0);
      if (!all) append_top_indices(wants, care.rows, scratch, chosen);
      for (const int32_t row : chosen) rows.push_back({first_ + row, voice});
    }
    return rows;
  }

  float want(const Row& row, Voices voices) {
    const Doubles bound = bounds(row, voices);
    for (size_t super = 0; super < bound.size(); ++super)
      promise_[super] = std::max(promise_[super], static_cast<float>(bound[super]));
    return bound.empty() ? 0 : static_cast<float>(*std::max_element(bound.begin(), bound.end()));
  }

  std::vector<int64_t> rated_blocks(const HeadCare& care) {
    if (promise_.empty() || care.blocks == 0 || care.blocks >= visible_) return all_blocks();
    if (params_.promise != nullptr)
      std::copy(promise_.begin(), promise_.end(), params_.promise + h_ * static_cast<int64_t>(promise_.size()));
    promise_[0] = std::numeric_limits<float>::max();
    const int64_t width = params_.keys.super_blocks;
    std::vector<uint64_t> scratch;
    std::vector<int32_t> supers;
    append_top_indices(promise_, std::max<int64_t>(1, care.blocks / width), scratch, supers);
    std::vector<int64_t> blocks;
    for (const int32_t super : supers)
      for (int64_t j = super * width; j < (super + 1) * width; ++j) blocks.push_back(j);
    for (int64_t j = visible_ / width * width; j < visible_; ++j) blocks.push_back(j);
    return blocks;
  }

  void probe() const {
    constexpr int64_t kSample = 32;
    const int64_t far = visible_ - params_.rows.grid.blocks_per_segment();
    double first = 0;
    double beyond = 0;
    for (int64_t i = 0; i < kSample; ++i) {
      const int64_t token = first_ + (2 * i + 1) * count_ / (2 * kSample);
      const Doubles peaks = normalised_peaks(query({token, 0}, Voices::kMean), token, all_blocks());
      first += std::exp(peaks[0]);
      for (int64_t j = 1; j < far; ++j) beyond += std::exp(peaks[static_cast<size_t>(j)]);
    }
    params_.probes[2 * h_] = static_cast<float>(first / kSample);
    params_.probes[2 * h_ + 1] = static_cast<float>(beyond / kSample);
  }

  const PeakScoreParams& params_;
  const int32_t h_;
  const int64_t group_;
  const int64_t dim_;
  const int64_t block_;
  const int64_t visible_;
  const int64_t own_begin_;
  const int64_t first_;
  const int64_t count_;
  std::vector<float> promise_;  // of the super-blocks, to the row that each promises most
};

}  // namespace

void reference_peak_scores(const PeakScoreParams& params) {
  for (int32_t h = 0; h < params.rows.kv_heads; ++h) CarefulHead(params, h).run();
}

}  // namespace ei::kernels
