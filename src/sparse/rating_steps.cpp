#include "sparse/rating_steps.h"

#include <algorithm>

namespace ei::sparse {

namespace {
const ScratchSlot kSampledRows, kSamples, kRanks, kRankings, kCounts;

bool any(const std::vector<uint8_t>& segments) {
  return std::find(segments.begin(), segments.end(), uint8_t{1}) != segments.end();
}

// All but what is rated how.
kernels::PeakScoreParams peak_params(const LayerTurn& turn) {
  return {.rows = turn.rows,
          .q = turn.q.data,
          .q_stride = turn.q.stride,
          .tokens = turn.tokens,
          .first_position = static_cast<int32_t>(turn.first),
          .num_heads = turn.shape.heads,
          .scale = turn.shape.attention_scale,
          .kv = turn.kv,
          .index = turn.keys,
          .keys = {}};
}

kernels::RowScore row_score(policy::BlockRank rank) {
  if (rank == policy::BlockRank::kOracleMax) return kernels::RowScore::kMassMax;
  if (rank == policy::BlockRank::kOracleSum) return kernels::RowScore::kMassSum;
  return kernels::RowScore::kGroupPeak;
}
}  // namespace

Status SampleStep::reserve(Stream& stream, const PlannerShape& shape, const kernels::BlockRows& rows,
                           const policy::PrefillMethod& method) {
  sampling_ = method.sampling();
  EI_RETURN_IF_ERROR(sampled_rows_.reserve(stream, kSampledRows, shape.layers(), num_lists(rows)));
  return samples_.reserve(stream, kSamples, shape.layers(), num_lists(rows));
}

void SampleStep::record(Stream& stream, const LayerTurn& turn, float* ratings) const {
  const std::vector<uint8_t> sampled = turn.segments([](const policy::SegmentPlace& place) { return place.sampled; });
  if (!any(sampled)) return;
  kernels::PeakScoreParams params = peak_params(turn);
  BlockRanking* const ranking = sampled_rows_.of(turn.layer);
  std::fill_n(ranking, num_lists(turn.rows), BlockRanking{.latest = true, .sampling = sampling_});
  params.ranking = ranking;
  params.sampled_only = true;
  params.scores = ratings;
  params.samples = samples_.of(turn.layer);
  stream.peak_scores(params, sampled);
}

void SampleStep::on_host(int layer, std::span<const policy::SegmentPlace> places, policy::LayerRecords& run) const {
  const AttentionSample* samples = samples_.of(layer);
  for (size_t i = 0; i < run.size(); ++i) {
    for (size_t h = 0; h < run[i].heads.size(); ++h) {
      policy::HeadRecord& head = run[i].heads[h];
      if (places[i].sampled) head.sample = samples[h * run.size() + i];
      head.sampled = places[i].sampled;
    }
  }
}

Status RatingStep::reserve(Stream& stream, const PlannerShape& shape, const kernels::BlockRows& rows, bool by_peaks) {
  by_peaks_ = by_peaks;
  EI_ASSIGN_OR_RETURN(ranks_, stream.scratch(kRanks, num_lists(rows), rows.stride));
  return rankings_.reserve(stream, kRankings, shape.layers(), num_lists(rows));
}

void RatingStep::on_host(int layer, const policy::LayerRecords& run) const {
  for (size_t i = 0; i < run.size(); ++i) {
    for (size_t h = 0; h < run[i].heads.size(); ++h) {
      BlockRanking& ranking = rankings_.of(layer)[h * run.size() + i];
      ranking = run[i].heads[h].ranking;
      ranking.sampling = Sampling::kNone;  // that was done before
    }
  }
}

void RatingStep::record(Stream& stream, const LayerTurn& turn, const policy::PrefillMethod& method) const {
  by_peaks_ ? rate_peaks(stream, turn, method) : score_rows(stream, turn, method);
}

void RatingStep::rate_peaks(Stream& stream, const LayerTurn& turn, const policy::PrefillMethod& method) const {
  const std::vector<uint8_t> rated = turn.segments([](const policy::SegmentPlace& place) { return place.attends; });
  if (!any(rated)) return;
  policy::RankedBy by;
  for (const policy::SegmentPlace& place : turn.places) {
    if (!place.attends) continue;
    const policy::RankedBy one = method.ranked_by(place.segment);
    by = {.heads = by.heads || one.heads, .groups = by.groups || one.groups};
  }
  kernels::PeakScoreParams params = peak_params(turn);
  params.ranking = rankings_.of(turn.layer);
  params.weighs_heads = by.groups;
  params.most_queries = by.heads ? turn.shape.heads / turn.shape.kv_heads : 1;
  params.scores = ranks_.data;
  stream.peak_scores(params, rated);
}

void RatingStep::score_rows(Stream& stream, const LayerTurn& turn, const policy::PrefillMethod& method) const {
  stream.row_scores({.kind = row_score(method.options().select),
                     .rows = turn.rows,
                     .q = turn.q.data,
                     .q_stride = turn.q.stride,
                     .tokens = turn.tokens,
                     .first_position = static_cast<int32_t>(turn.first),
                     .num_heads = turn.shape.heads,
                     .scale = turn.shape.attention_scale,
                     .wanted = turn.sparse.data(),
                     .kv = turn.kv,
                     .scores = ranks_.data});
}

Status SelectStep::reserve(Stream& stream, const PlannerShape& shape, const kernels::BlockRows& rows) {
  return counts_.reserve(stream, kCounts, shape.layers(), num_lists(rows));
}

void SelectStep::on_host(int layer, const BlockPlan& plan) const {
  int32_t* counts = counts_.of(layer);
  for (int32_t h = 0; h < plan.kv_heads; ++h) {
    for (int32_t i = 0; i < plan.num_segments; ++i) {
      const size_t list = plan.list(h, i);
      counts[list] = plan.dense[static_cast<size_t>(i)] != 0 ? -1 : static_cast<int32_t>(plan.count(list));
    }
  }
}

void SelectStep::record(Stream& stream, const LayerTurn& turn, const float* values, BlockPlan& plan,
                        bool wanted) const {
  stream.select_blocks(
      {.rows = turn.rows, .values = values, .plan = &plan, .counts = counts_.of(turn.layer), .wanted = wanted});
}

}  // namespace ei::sparse
