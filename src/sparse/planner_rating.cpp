// How the planner rates the blocks of a chunk by the peaks of rows: what it asks of the stream, and of the method.
#include <algorithm>

#include "sparse/planner.h"

namespace ei::sparse {

namespace {
// Floats that hold `count` things, with the next ones well aligned.
template <typename T>
constexpr int64_t floats_for(int64_t count) {
  return (count * static_cast<int64_t>(sizeof(T)) + 15) / 16 * 4;
}

}  // namespace

int64_t Planner::exchanged_floats(int64_t lists) {
  return 2 * floats_for<BlockRanking>(lists) + floats_for<AttentionSample>(lists) + floats_for<int32_t>(lists);
}

Planner::Exchange Planner::exchange(int layer) const {
  const int64_t lists = int64_t{shape_.kv_heads} * rows_.num_segments;
  const int64_t rankings = floats_for<BlockRanking>(lists);
  const int64_t samples = floats_for<AttentionSample>(lists);
  float* at = exchange_ + layer * exchanged_floats(lists);
  return {.sampled = reinterpret_cast<BlockRanking*>(at),
          .rankings = reinterpret_cast<BlockRanking*>(at + rankings),
          .samples = reinterpret_cast<AttentionSample*>(at + 2 * rankings),
          .counts = reinterpret_cast<int32_t*>(at + 2 * rankings + samples)};
}

// First the samples of all segments, then on the host what follows from them, segment by segment, then all ratings: one
// step on the host for each layer.
void Planner::rate_segments(Stream& stream, int layer, Matrix q, const KvView& kv, int64_t attending_from) {
  const bool any = tracks_[static_cast<size_t>(layer)].attends;
  // Of the last layer's rows only few attend: what it does stays unknown, however the prompt is cut.
  const bool last_layer = layer + 1 == static_cast<int>(tracks_.size());
  std::vector<policy::SegmentPlace> places;
  std::vector<uint8_t> sampled;
  std::vector<uint8_t> rated;
  bool by_heads = false;
  bool by_groups = false;
  for (int32_t i = 0; i < rows_.num_segments; ++i) {
    const int32_t segment = rows_.first_segment + i;
    const int64_t rows = rows_of(segment);
    places.push_back({.layer = layer,
                      .segment = segment,
                      .rows = rows,
                      .attends = any && sparse_[static_cast<size_t>(i)] != 0 && i >= attending_from,
                      .sampled = !last_layer && rows == options().segment && method_->samples(segment)});
    sampled.push_back(places.back().sampled ? 1 : 0);
    rated.push_back(places.back().attends ? 1 : 0);
    if (!places.back().attends) continue;
    (method_->ranks_by_heads(segment) ? by_heads : by_groups) = true;
  }
  const Exchange hand = exchange(layer);
  kernels::PeakScoreParams params{.rows = rows_,
                                  .q = q.data,
                                  .q_stride = q.stride,
                                  .tokens = tokens_,
                                  .first_position = static_cast<int32_t>(first_),
                                  .num_heads = shape_.heads,
                                  .scale = shape_.attention_scale,
                                  .kv = kv,
                                  .index = {},
                                  .keys = {},
                                  .ranking = hand.sampled,
                                  .sampled_only = true,
                                  .most_queries = 1,
                                  .scores = ranks_.data,
                                  .samples = hand.samples};
  const bool samples = std::count(sampled.begin(), sampled.end(), uint8_t{1}) > 0;
  const bool rates = std::count(rated.begin(), rated.end(), uint8_t{1}) > 0;
  if (samples || rates) params.index = index_.pack(stream, layer, kv, first_ + tokens_);
  if (samples) {
    for (int32_t i = 0; i < shape_.kv_heads * rows_.num_segments; ++i)
      hand.sampled[i] = {.latest = true, .sampling = method_->sampling()};
    stream.peak_scores(params, sampled);
  }
  stream.host([this, layer, places] {
    rank_segments(layer, places);
    decide(layer);
  });
  if (!rates) return;
  params.ranking = hand.rankings;
  params.sampled_only = false;
  params.weighs_heads = by_groups;
  params.most_queries = by_heads ? shape_.heads / shape_.kv_heads : 1;
  stream.peak_scores(params, rated);
}

// On the host: each segment by what the one before has shown, so that a plan does not depend on how a prompt is cut.
void Planner::rank_segments(int layer, const std::vector<policy::SegmentPlace>& places) {
  policy::LayerRecords& run = tracks_[static_cast<size_t>(layer)].run;
  const Exchange hand = exchange(layer);
  for (size_t i = 0; i < places.size(); ++i) {
    policy::SegmentRecord& record = run[i];
    const policy::PrefillHistory known = history(layer, i);
    method_->rank(places[i], known, record);
    for (size_t h = 0; h < record.heads.size(); ++h) {
      policy::HeadRecord& head = record.heads[h];
      BlockRanking& ranking = hand.rankings[i * record.heads.size() + h];
      ranking = head.ranking;
      ranking.sampling = Sampling::kNone;
      if (!places[i].sampled) continue;
      head.sampled = true;
      head.sample = hand.samples[i * record.heads.size() + h];
    }
    method_->observe(known.previous, record);
  }
}

}  // namespace ei::sparse
