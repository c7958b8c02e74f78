// The reference of peak scores with different ranking (PeakScoreParams): slow, obvious, in double, without rounding.
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
class RankedHead {
 public:
  RankedHead(const PeakScoreParams& params, int32_t h)
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
    const BlockRanking& ranking = params_.ranking_of(h_);
    if (ranking.sampling != Sampling::kNone) sample();
    if (ranking.latest) {
      for (int64_t j = 0; j < visible_; ++j) scores[j] = static_cast<float>(j == 0 ? 0 : j - visible_);
      return;
    }
    std::fill_n(scores, visible_, -std::numeric_limits<float>::infinity());
    const std::vector<Row> rows = ranking_rows(ranking);
    const std::vector<int64_t> blocks = candidate_blocks(ranking, rows);
    for (const Row& row : rows) {
      const Doubles peaks = normalised_peaks(query(row, ranking.queries), row.token, blocks);
      for (size_t i = 0; i < blocks.size(); ++i)
        scores[blocks[i]] = std::max(scores[blocks[i]], static_cast<float>(peaks[i]));
    }
  }

 private:
  struct Row {
    int64_t token;
    int64_t member;
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

  Doubles query(const Row& row, GroupQuery queries) const {
    const auto group = static_cast<size_t>(group_);
    if (queries == GroupQuery::kEach) return single(row.token, static_cast<size_t>(row.member));
    if (queries == GroupQuery::kMean) return mix(row.token, Doubles(group, 1.0 / static_cast<double>(group)));
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
  Doubles bounds(const Row& row, GroupQuery queries) const {
    const Doubles q = query(row, queries);
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

  // Of each query the rows that are furthest from its mean over all rows.
  std::vector<Row> ranking_rows(const BlockRanking& ranking) const {
    const bool all = ranking.rows == 0 || ranking.rows >= count_;
    const int64_t queries = num_queries(ranking.queries, group_);
    std::vector<Row> rows;
    for (int64_t member = 0; member < queries; ++member) {
      std::vector<uint64_t> scratch;
      std::vector<int32_t> chosen(all ? static_cast<size_t>(count_) : 0);
      std::iota(chosen.begin(), chosen.end(), 0);
      if (!all) {
        const std::vector<float> distances = row_distances(member, ranking.queries);
        for (int64_t row = 0; row < count_ && params_.row_distances != nullptr; ++row)
          params_.row_distances[h_ * count_ * params_.most_queries + row * queries + member] =
              distances[static_cast<size_t>(row)];
        append_top_indices(distances, ranking.rows, scratch, chosen);
      }
      for (const int32_t row : chosen) rows.push_back({first_ + row, member});
    }
    return rows;
  }

  std::vector<float> row_distances(int64_t member, GroupQuery queries) const {
    Doubles mean(static_cast<size_t>(dim_));
    for (int64_t row = 0; row < count_; ++row) {
      const Doubles q = query({first_ + row, member}, queries);
      for (size_t d = 0; d < mean.size(); ++d) mean[d] += q[d] / static_cast<double>(count_);
    }
    std::vector<float> distances;
    for (int64_t row = 0; row < count_; ++row) {
      const Doubles q = query({first_ + row, member}, queries);
      double sum = 0;
      for (size_t d = 0; d < mean.size(); ++d) sum += (q[d] - mean[d]) * (q[d] - mean[d]);
      distances.push_back(static_cast<float>(sum));
    }
    return distances;
  }

  std::vector<int64_t> candidate_blocks(const BlockRanking& ranking, const std::vector<Row>& rows) const {
    if (ranking.candidates == 0 || ranking.candidates >= visible_) return all_blocks();
    const int64_t width = params_.keys.super_blocks;
    std::vector<float> super_bounds(static_cast<size_t>(visible_ / width), -std::numeric_limits<float>::infinity());
    for (const Row& row : rows) {
      const Doubles bound = bounds(row, ranking.queries);
      for (size_t super = 0; super < bound.size(); ++super)
        super_bounds[super] = std::max(super_bounds[super], static_cast<float>(bound[super]));
    }
    if (super_bounds.empty()) return all_blocks();
    if (params_.super_bounds != nullptr)
      std::copy(super_bounds.begin(), super_bounds.end(),
                params_.super_bounds + h_ * static_cast<int64_t>(super_bounds.size()));
    super_bounds[0] = std::numeric_limits<float>::max();
    std::vector<uint64_t> scratch;
    std::vector<int32_t> supers;
    append_top_indices(super_bounds, std::max<int64_t>(1, ranking.candidates / width), scratch, supers);
    std::vector<int64_t> blocks;
    for (const int32_t super : supers)
      for (int64_t j = super * width; j < (super + 1) * width; ++j) blocks.push_back(j);
    for (int64_t j = visible_ / width * width; j < visible_; ++j) blocks.push_back(j);
    return blocks;
  }

  static double x_log_x(double x) { return x > 0 ? x * std::log(x) : 0; }

  void sample() const {
    const bool heads = params_.ranking_of(h_).sampling == Sampling::kHeads;
    const int64_t tiles = heads ? group_ : 1;
    const int64_t rows = 32 * tiles;
    const int64_t distant = std::max<int64_t>(visible_ - params_.rows.grid.blocks_per_segment(), 1);
    Doubles mean(static_cast<size_t>(visible_));  // over the rows
    double row_entropies = 0;                     // of far distributions, each times its far share
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t token = first_ + (2 * i + 1) * count_ / (2 * rows);
      const Doubles q = heads ? single(token, static_cast<size_t>(i % group_)) : query({token, 0}, GroupQuery::kMean);
      Doubles shares = normalised_peaks(q, token, all_blocks());
      double far = 0;
      double sum = 0;
      for (size_t j = 0; j < shares.size(); ++j) {
        shares[j] = std::exp(shares[j]);
        mean[j] += shares[j] / static_cast<double>(rows);
        if (j == 0) continue;
        far += shares[j];
        sum += x_log_x(shares[j]);
      }
      row_entropies += (x_log_x(far) - sum) / static_cast<double>(rows);
    }
    AttentionSample& out = params_.sample_of(h_);
    out = {.sink = static_cast<float>(mean[0])};
    double far = 0;
    double sum = 0;
    for (size_t j = 1; j < mean.size(); ++j) {
      far += mean[j];
      sum += x_log_x(mean[j]);
      if (static_cast<int64_t>(j) < distant) out.distant += static_cast<float>(mean[j]);
    }
    out.far = static_cast<float>(far);
    if (far <= 0) return;
    out.segment_entropy = static_cast<float>(std::log(far) - sum / far);
    out.row_entropy = static_cast<float>(row_entropies / far);
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
};

}  // namespace

void reference_peak_scores(const PeakScoreParams& params) {
  for (int32_t h = 0; h < params.rows.kv_heads; ++h) RankedHead(params, h).run();
}

}  // namespace ei::kernels
