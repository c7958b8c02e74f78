#include "sparse/planner.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace ei::sparse {

namespace {
constexpr int kRepresentatives = 200;  // scratch slots, apart from the model's and the engine's
constexpr int kScores = 201;
constexpr int kRanks = 202;
constexpr int kProbabilities = 203;
constexpr int kEntropy = 200;  // of shared memory
constexpr int kProbes = 201;

std::vector<uint8_t> planned_layers(const policy::PrefillOptions& options, const PlannerShape& shape) {
  std::vector<uint8_t> planned;
  for (size_t layer = 0; layer < shape.global.size(); ++layer) {
    const bool dense = policy::is_dense_layer(options, static_cast<int32_t>(layer));
    planned.push_back(!dense && shape.global[layer] != 0 ? 1 : 0);
  }
  return planned;
}

// Peaks of whole panels; other block sizes go the slow way.
bool rates_peaks(const policy::PrefillOptions& options) {
  const bool peaks = options.select == policy::BlockRank::kPeak || options.select == policy::BlockRank::kHabit;
  return peaks && options.block % 8 == 0;
}

kernels::RowScore row_score(policy::BlockRank rank) {
  if (rank == policy::BlockRank::kOracleMax) return kernels::RowScore::kMassMax;
  if (rank == policy::BlockRank::kOracleSum) return kernels::RowScore::kMassSum;
  return kernels::RowScore::kGroupPeak;
}
}  // namespace

Planner::Planner(const Backend& backend, const policy::PrefillOptions& options, PlannerShape shape)
    : options_(options),
      shape_(std::move(shape)),
      index_shape_{.kv_heads = shape_.kv_heads,
                   .head_dim = shape_.head_dim,
                   .key_type = shape_.key_type,
                   .grid = options.grid(),
                   .panels = rates_peaks(options),
                   .planned = planned_layers(options, shape_)},
      index_(backend, index_shape_),
      tracks_(shape_.global.size()) {
  // Of the last layer's rows only few attend.
  const auto choosing = std::count(index_shape_.planned.begin(), index_shape_.planned.end() - 1, uint8_t{1});
  price_ = {.products = shape_.products,
            .per_key = static_cast<double>(choosing) * static_cast<double>(shape_.heads * shape_.head_dim)};
  for (Track& track : tracks_) {
    track.layer = static_cast<int32_t>(&track - tracks_.data());
    track.budget.emplace(options_, shape_.kv_heads);
    track.habits.resize(static_cast<size_t>(shape_.kv_heads));
  }
}

int64_t Planner::chunk_end(int64_t first, int64_t batch) const {
  // The released rule looks at the entropies of the whole prompt before it decides on the first segment.
  if (options_.rigid_test == policy::RigidTest::kWholeTrace) return prompt_end_;
  const int64_t segment = options_.segment;
  const int64_t end = (first + std::max(batch, segment)) / segment * segment;
  return std::min(end, prompt_end_);
}

Status Planner::begin_prompt(int64_t end) {
  prompt_end_ = end;
  return index_.reserve(end);
}

Status Planner::begin_chunk(Stream& stream, int64_t first, int64_t tokens) {
  const int64_t segment = options_.segment;
  first_ = first;
  tokens_ = tokens;
  const auto first_segment = static_cast<int32_t>(first / segment);
  const auto num_segments = static_cast<int32_t>((first + tokens - 1) / segment) - first_segment + 1;
  chunk_ = {.kv_heads = shape_.kv_heads,
            .first_segment = first_segment,
            .num_segments = num_segments,
            .prompt_tokens = prompt_end_,
            .resumed = first % segment != 0};
  sparse_.clear();
  for (int32_t i = 0; i < num_segments; ++i) sparse_.push_back(policy::is_dense(options_, chunk_, i) ? 0 : 1);

  const int64_t blocks = (prompt_end_ + segment - 1) / segment * options_.grid().blocks_per_segment();
  rows_ = {.grid = options_.grid(),
           .kv_heads = shape_.kv_heads,
           .first_segment = first_segment,
           .num_segments = num_segments,
           .stride = blocks};
  const int64_t lists = int64_t{shape_.kv_heads} * num_segments;
  EI_ASSIGN_OR_RETURN(representatives_,
                      stream.scratch(kRepresentatives, num_segments, int64_t{shape_.heads} * shape_.head_dim));
  EI_ASSIGN_OR_RETURN(scores_, stream.scratch(kScores, lists, blocks));
  if (options_.select != policy::BlockRank::kMidrange) {
    EI_ASSIGN_OR_RETURN(ranks_, stream.scratch(kRanks, lists, blocks));
  }
  if (options_.layer_fusion || policy::ranks_on_probabilities(options_)) {
    EI_ASSIGN_OR_RETURN(probabilities_, stream.scratch(kProbabilities, lists, blocks));
  }
  EI_ASSIGN_OR_RETURN(entropy_, stream.shared(kEntropy, static_cast<int64_t>(tracks_.size()) * lists));
  EI_ASSIGN_OR_RETURN(probes_, stream.shared(kProbes, static_cast<int64_t>(tracks_.size()) * shape_.kv_heads * 2));
  for (Track& track : tracks_) {
    track.budget_before = track.budget;
    track.habits_before = track.habits;
    track.care.assign(static_cast<size_t>(lists), {});
    track.kinds.assign(static_cast<size_t>(lists), policy::HeadKind::kUnknown);
    track.habits_behind.assign(static_cast<size_t>(lists), {});
    track.recorded = track.attends = false;
    if (track.budget->next_segment() < first_segment) track.budget->skip_to(first_segment);
  }
  return {};
}

// Scores of the representatives, and their entropy.
void Planner::profile(Stream& stream, int layer, Matrix q) {
  const int64_t segment = options_.segment;
  stream.query_midrange({.q = q.data,
                         .q_stride = q.stride,
                         .tokens = tokens_,
                         .first_rows = chunk_.resumed ? segment - first_ % segment : 0,
                         .segment = options_.segment,
                         .num_heads = shape_.heads,
                         .head_dim = shape_.head_dim,
                         .out = representatives_.data});
  const bool scaled = options_.logit_scale == policy::LogitScale::kInverseSqrtDim;
  stream.block_scores({.rows = rows_,
                       .queries = representatives_.data,
                       .num_heads = shape_.heads,
                       .head_dim = shape_.head_dim,
                       .keys = index_.view(layer),
                       .scale = scaled ? 1.0f / std::sqrt(static_cast<float>(shape_.head_dim)) : 1.0f,
                       .scores = scores_.data});
  // The layer before is the last one that was planned: those with a window have no blocks.
  int before = layer - 1;
  while (before >= 0 && !plans(before)) --before;
  const bool follows = before >= 0 && tracks_[static_cast<size_t>(before)].recorded;
  stream.block_entropy({.rows = rows_,
                        .scores = scores_.data,
                        .previous = policy::fuses(options_, layer, follows) ? probabilities_.data : nullptr,
                        .probabilities = probabilities_.data,
                        .entropy = entropy_ + layer * int64_t{chunk_.kv_heads} * chunk_.num_segments});
}

int64_t Planner::rows_of(int32_t i) const {
  const int64_t begin = int64_t{chunk_.first_segment + i} * options_.segment;
  return std::min(begin + options_.segment, first_ + tokens_) - std::max(begin, first_);
}

// Peaks of one segment, by the habits its kv_heads have shown so far; then, with a probe, their habits go on. Segment
// by segment, so that a plan does not depend on how a prompt is cut.
void Planner::rate_peaks(Stream& stream, int layer, int32_t i, Matrix q, const KvView& kv, bool wanted, bool probed) {
  Track& track = tracks_[static_cast<size_t>(layer)];
  const auto heads = static_cast<size_t>(shape_.kv_heads);
  const size_t first = static_cast<size_t>(i) * heads;
  float* probes = probes_ + layer * int64_t{shape_.kv_heads} * 2;
  const policy::Asking asking = policy::asking_at(options_, price_, chunk_.first_segment + i);
  stream.host([this, &track, asking, first, heads, i, wanted, probed] {
    for (size_t h = 0; h < heads; ++h) {
      track.kinds[first + h] = policy::kind_of(track.habits[h]);
      HeadCare& care = track.care[first + h];
      care = policy::care_for(options_, asking, {track.layer, static_cast<int32_t>(tracks_.size())},
                              track.kinds[first + h], chunk_.first_segment + i, rows_of(i));
      care.latest = care.latest || !wanted;
      care.probe = probed;
    }
  });
  stream.peak_scores({.rows = rows_,
                      .segment = i,
                      .q = q.data,
                      .q_stride = q.stride,
                      .tokens = tokens_,
                      .first_position = static_cast<int32_t>(first_),
                      .num_heads = shape_.heads,
                      .scale = shape_.attention_scale,
                      .kv = kv,
                      .keys = index_.panels(layer),
                      .care = track.care.data() + first,
                      .most_voices = asking == policy::Asking::kGroup ? 1 : shape_.heads / shape_.kv_heads,
                      .scores = ranks_.data,
                      .probes = probes});
  if (!probed) return;
  stream.host([this, &track, heads, i, probes] {
    for (size_t h = 0; h < heads; ++h)
      policy::add_probe(options_, chunk_.first_segment + i, probes[2 * h], probes[2 * h + 1], track.habits[h]);
  });
}

const float* Planner::rank(Stream& stream, int layer, Matrix q, const KvView& kv, int64_t attending) {
  if (options_.select == policy::BlockRank::kMidrange)
    return policy::ranks_on_probabilities(options_) ? probabilities_.data : scores_.data;
  if (!rates_peaks(options_)) {
    stream.row_scores({.kind = row_score(options_.select),
                       .rows = rows_,
                       .q = q.data,
                       .q_stride = q.stride,
                       .tokens = tokens_,
                       .first_position = static_cast<int32_t>(first_),
                       .num_heads = shape_.heads,
                       .scale = shape_.attention_scale,
                       .wanted = sparse_.data(),
                       .kv = kv,
                       .scores = ranks_.data});
    return ranks_.data;
  }
  Track& track = tracks_[static_cast<size_t>(layer)];
  const auto heads = static_cast<size_t>(shape_.kv_heads);
  for (int32_t i = 0; i < chunk_.num_segments; ++i) {
    const bool wanted = sparse_[static_cast<size_t>(i)] != 0 && i >= attending;
    // Of the last layer's rows only few attend: its habits stay unknown, however the prompt is cut.
    const bool last_layer = layer + 1 == static_cast<int>(tracks_.size());
    const bool whole = rows_of(i) == options_.segment;
    const bool probed = !last_layer && whole && policy::is_probed_segment(options_, chunk_.first_segment + i);
    if (wanted || probed) rate_peaks(stream, layer, i, q, kv, wanted, probed);
    stream.host([&track, heads, i] {
      std::copy(track.habits.begin(), track.habits.end(),
                track.habits_behind.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(i) * heads));
    });
  }
  return ranks_.data;
}

const BlockPlan* Planner::record(Stream& stream, int layer, Matrix q, const KvView& kv, int64_t attending) {
  EI_CHECK(plans(layer));
  Track& track = tracks_[static_cast<size_t>(layer)];
  index_.update(stream, layer, kv, first_ + tokens_);
  profile(stream, layer, q);
  track.recorded = true;
  const float* entropy = entropy_ + layer * int64_t{chunk_.kv_heads} * chunk_.num_segments;
  // The first segment in which rows attend; all of them do, except in the last layer.
  const int64_t from =
      attending == tokens_ ? 0 : (first_ + tokens_ - attending) / options_.segment - chunk_.first_segment;
  const bool probes = rates_peaks(options_) && options_.select == policy::BlockRank::kHabit;
  track.attends =
      attending > 0 && std::count(sparse_.begin() + static_cast<std::ptrdiff_t>(from), sparse_.end(), uint8_t{1}) > 0;
  const float* values = track.attends || probes ? rank(stream, layer, q, kv, from) : nullptr;
  stream.host([this, &track, entropy] { decide(track, entropy); });
  if (!track.attends) return nullptr;
  track.plan.grid = options_.grid();
  stream.select_blocks({.rows = rows_, .values = values, .plan = &track.plan});
  return &track.plan;
}

// On the host, while the stream runs: entropies to budgets to the layout of the plan.
void Planner::decide(Track& track, const float* entropy) const {
  const auto lists = static_cast<size_t>(chunk_.kv_heads) * static_cast<size_t>(chunk_.num_segments);
  policy::ChunkProfile profile = chunk_;
  track.entropy.assign(entropy, entropy + lists);
  track.tokens.resize(lists);
  profile.entropy = track.entropy;
  std::vector<int32_t> counts = policy::count_blocks(options_, profile, *track.budget, track.tokens);
  for (int32_t h = 0; h < chunk_.kv_heads; ++h) {
    for (int32_t i = 0; i < chunk_.num_segments; ++i) {
      const policy::HeadKind kind = track.kinds[static_cast<size_t>(i * chunk_.kv_heads + h)];
      int32_t& count = counts[static_cast<size_t>(h * chunk_.num_segments + i)];
      count = policy::count_for(options_, track.layer, kind, chunk_.first_segment + i, count);
    }
  }
  if (options_.mode != policy::SparseMode::kRagged) policy::collapse_counts(counts, chunk_.kv_heads);
  track.rigid.clear();
  for (const policy::EntropyBudget::Head& head : track.budget->heads()) track.rigid.push_back(head.rigid ? 1 : 0);
  policy::lay_out_plan(options_, profile, counts, track.plan);
}

double Planner::finish_chunk() {
  double pairs = 0;
  for (Track& track : tracks_) {
    if (!track.recorded) continue;
    pairs += pairs_left_out(track.plan);
    append_trace(track);
  }
  return pairs;
}

double Planner::pairs_left_out(const BlockPlan& plan) const {
  double pairs = 0;
  for (int32_t i = 0; i < plan.num_segments; ++i) {
    if (plan.dense[static_cast<size_t>(i)] != 0) continue;
    const int64_t begin = int64_t{plan.first_segment + i} * options_.segment;
    const int64_t rows = std::min(begin + options_.segment, first_ + tokens_) - std::max(begin, first_);
    for (int32_t h = 0; h < plan.kv_heads; ++h) {
      const auto list = static_cast<size_t>(h * plan.num_segments + i);
      const int64_t read = (plan.offsets[list + 1] - plan.offsets[list]) * options_.block;
      pairs += static_cast<double>(rows) * static_cast<double>(begin - read);
    }
  }
  return pairs;
}

void Planner::append_trace(Track& track) const {
  LayerTrace& trace = track.trace;
  // A resumed segment replaces its first part.
  if (!trace.segments.empty() && trace.segments.back() == chunk_.first_segment) {
    const auto heads = static_cast<size_t>(chunk_.kv_heads);
    trace.segments.pop_back();
    trace.dense.pop_back();
    trace.entropy.resize(trace.entropy.size() - heads);
    trace.tokens.resize(trace.tokens.size() - heads);
    trace.rigid.resize(trace.rigid.size() - heads);
    trace.habits.resize(trace.habits.size() - heads);
    trace.kinds.resize(trace.kinds.size() - heads);
    trace.blocks.resize(trace.blocks.size() - (keep_blocks_ ? heads : 0));
  }
  for (int32_t i = 0; i < chunk_.num_segments; ++i) {
    trace.segments.push_back(chunk_.first_segment + i);
    trace.dense.push_back(track.plan.dense[static_cast<size_t>(i)]);
    for (int32_t h = 0; h < chunk_.kv_heads; ++h) {
      const auto list = static_cast<size_t>(h * chunk_.num_segments + i);
      trace.entropy.push_back(track.entropy[list]);
      trace.tokens.push_back(track.tokens[list]);
      trace.rigid.push_back(track.rigid[static_cast<size_t>(h)]);
      trace.habits.push_back(track.habits_behind[static_cast<size_t>(i * chunk_.kv_heads + h)]);
      trace.kinds.push_back(track.kinds[static_cast<size_t>(i * chunk_.kv_heads + h)]);
      if (!keep_blocks_) continue;
      const auto begin = track.plan.blocks.begin();
      const bool chosen = track.attends;
      trace.blocks.emplace_back(begin + (chosen ? track.plan.offsets[list] : 0),
                                begin + (chosen ? track.plan.offsets[list + 1] : 0));
    }
  }
}

void Planner::undo_chunk() {
  for (Track& track : tracks_) {
    if (!track.budget_before) continue;
    track.budget = track.budget_before;
    track.habits = track.habits_before;
  }
  index_.truncate(first_);
}

void Planner::truncate(int64_t position) {
  const auto keep = static_cast<int32_t>(position / options_.segment);  // whole segments
  const auto heads = static_cast<size_t>(shape_.kv_heads);
  index_.truncate(position);
  for (Track& track : tracks_) {
    LayerTrace& trace = track.trace;
    size_t count = 0;
    while (count < trace.segments.size() && trace.segments[count] < keep) ++count;
    trace.segments.resize(count);
    trace.dense.resize(count);
    trace.entropy.resize(count * heads);
    trace.tokens.resize(count * heads);
    trace.rigid.resize(count * heads);
    trace.habits.resize(count * heads);
    trace.kinds.resize(count * heads);
    track.habits.assign(heads, {});
    if (count > 0)
      std::copy(trace.habits.end() - static_cast<std::ptrdiff_t>(heads), trace.habits.end(), track.habits.begin());
    if (keep_blocks_) trace.blocks.resize(count * heads);
    track.budget.emplace(options_, shape_.kv_heads);
    std::vector<int32_t> counts(heads);
    for (size_t i = 0; i < count; ++i) {
      if (track.budget->next_segment() < trace.segments[i]) track.budget->skip_to(trace.segments[i]);
      track.budget->push(trace.segments[i], 1, std::span(trace.entropy).subspan(i * heads, heads), {}, counts);
    }
  }
}

int64_t Planner::bytes_for(int64_t end) const {
  const int64_t blocks = end / options_.block;
  const int64_t rows = int64_t{shape_.kv_heads} * 3 * blocks * static_cast<int64_t>(sizeof(float));
  // Peaks of one tile of rows per worker, and the best of every tile of every head.
  const int64_t peaks =
      rates_peaks(options_) ? (150 + 20 * int64_t{shape_.heads}) * blocks * static_cast<int64_t>(sizeof(float)) : 0;
  return index_.bytes_for(end) + rows + peaks;
}

}  // namespace ei::sparse
