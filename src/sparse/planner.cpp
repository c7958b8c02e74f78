#include "sparse/planner.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "policy/prefill/plan_layout.h"

namespace ei::sparse {

namespace {
using policy::BlockRank;
using policy::PrefillOptions;

constexpr int kRepresentatives = 200;  // scratch slots, apart from the model's and the engine's
constexpr int kScores = 201;
constexpr int kRanks = 202;
constexpr int kProbabilities = 203;
constexpr int kEntropy = 200;  // of shared memory
constexpr int kExchange = 201;

std::vector<uint8_t> planned_layers(const PrefillOptions& options, const PlannerShape& shape) {
  std::vector<uint8_t> planned;
  for (size_t layer = 0; layer < shape.global.size(); ++layer) {
    const bool dense = policy::is_dense_layer(options, static_cast<int32_t>(layer));
    planned.push_back(!dense && shape.global[layer] != 0 ? 1 : 0);
  }
  return planned;
}

// Blocks that no backend rates by peaks go the slow way.
bool wants_peaks(const PrefillOptions& options) {
  return options.select == BlockRank::kPeak || options.select == BlockRank::kAdaptive;
}

kernels::KeyIndexShape key_shape(const PrefillOptions& options, const PlannerShape& shape) {
  return {.heads = shape.heads,
          .kv_heads = shape.kv_heads,
          .head_dim = shape.head_dim,
          .key_type = shape.key_type,
          .grid = options.grid()};
}

kernels::RowScore row_score(BlockRank rank) {
  if (rank == BlockRank::kOracleMax) return kernels::RowScore::kMassMax;
  if (rank == BlockRank::kOracleSum) return kernels::RowScore::kMassSum;
  return kernels::RowScore::kGroupPeak;
}

policy::PrefillShape method_shape(const Backend& backend, const PlannerShape& shape,
                                  const std::vector<uint8_t>& planned) {
  // Of the last layer's rows only few attend.
  const auto choosing = std::count(planned.begin(), planned.end() - 1, uint8_t{1});
  return {.layers = static_cast<int32_t>(planned.size()),
          .kv_heads = shape.kv_heads,
          .products = shape.products / backend.rating_cost(),
          .per_key = static_cast<double>(choosing) * static_cast<double>(shape.heads * shape.head_dim),
          .choosing_heads = static_cast<int32_t>(choosing) * shape.kv_heads};
}
}  // namespace

Status Planner::served(const Backend& backend, const PrefillOptions& options, const PlannerShape& shape) {
  if (policy::make_prefill_method(options, {})->covers() > 0 && !backend.covers_and_bounds())
    return make_error(ErrorKind::kUsage,
                      "the %s backend does not count what blocks cover: take another --method, or "
                      "--device cpu",
                      std::string(backend.name()).c_str());
  if (options.select == BlockRank::kMidrange || backend.scores_rows()) return {};
  if (wants_peaks(options) && backend.rates_peaks(key_shape(options, shape))) return {};
  return make_error(ErrorKind::kUsage,
                    "the %s backend cannot rate blocks of %d tokens by '%s': take a block that is a multiple of 8 and "
                    "another rating, or --device cpu",
                    std::string(backend.name()).c_str(), options.block, policy::block_rank_name(options.select));
}

Planner::Planner(const Backend& backend, const PrefillOptions& options, PlannerShape shape)
    : shape_(std::move(shape)),
      planned_(planned_layers(options, shape_)),
      rates_peaks_(wants_peaks(options) && backend.rates_peaks(key_shape(options, shape_))),
      method_(policy::make_prefill_method(options, method_shape(backend, shape_, planned_))),
      index_(backend, {.keys = key_shape(options, shape_),
                       .extremes = method_->reads_midrange(),
                       .rated = rates_peaks_,
                       .planned = planned_}),
      records_(planned_.size()),
      tracks_(planned_.size()) {
  EI_CHECK(method_ != nullptr);
}

int64_t Planner::chunk_end(int64_t first, int64_t batch) const {
  // The released rule looks at the entropies of the whole prompt before it decides on the first segment.
  if (options().rigid_test == policy::RigidTest::kWholeTrace) return prompt_end_;
  const int64_t segment = options().segment;
  int64_t end = (first + std::max(batch, segment)) / segment * segment;
  const int64_t pool = method_->pool_segments() * segment;
  if (pool > 0) end = std::min(end, (first / pool + 1) * pool);
  return std::min(end, prompt_end_);
}

int64_t Planner::longest_chunk(int64_t tokens, int64_t batch) const {
  if (options().rigid_test == policy::RigidTest::kWholeTrace) return tokens;
  return std::min(tokens, std::max(batch, int64_t{options().segment}));
}

Status Planner::begin_prompt(int64_t end) {
  prompt_end_ = end;
  return index_.reserve(end);
}

int64_t Planner::rows_of(int32_t segment) const {
  const int64_t begin = int64_t{segment} * options().segment;
  return std::min(begin + options().segment, first_ + tokens_) - std::max(begin, first_);
}

Status Planner::begin_chunk(Stream& stream, int64_t first, int64_t tokens) {
  const int64_t segment = options().segment;
  first_ = first;
  tokens_ = tokens;
  const auto first_segment = static_cast<int32_t>(first / segment);
  const auto num_segments = static_cast<int32_t>((first + tokens - 1) / segment) - first_segment + 1;
  const bool resumed = first % segment != 0;  // begun by an earlier prompt: what is left of it reads everything
  sparse_.clear();
  for (int32_t i = 0; i < num_segments; ++i) {
    const bool dense = (resumed && i == 0) || policy::is_dense_segment(options(), first_segment + i, prompt_end_);
    sparse_.push_back(dense ? 0 : 1);
  }
  const int64_t blocks = (prompt_end_ + segment - 1) / segment * options().grid().blocks_per_segment();
  rows_ = {.grid = options().grid(),
           .kv_heads = shape_.kv_heads,
           .first_segment = first_segment,
           .num_segments = num_segments,
           .stride = blocks};
  const int64_t lists = int64_t{shape_.kv_heads} * num_segments;
  const auto layers = static_cast<int64_t>(tracks_.size());
  if (method_->reads_midrange()) {
    EI_ASSIGN_OR_RETURN(representatives_,
                        stream.scratch(kRepresentatives, num_segments, int64_t{shape_.heads} * shape_.head_dim));
    EI_ASSIGN_OR_RETURN(scores_, stream.scratch(kScores, lists, blocks));
    EI_ASSIGN_OR_RETURN(entropy_, stream.shared(kEntropy, 2 * layers * lists));
  }
  if (options().select != BlockRank::kMidrange) {
    EI_ASSIGN_OR_RETURN(ranks_, stream.scratch(kRanks, lists, blocks));
  }
  if (options().layer_fusion || policy::ranks_on_probabilities(options())) {
    EI_ASSIGN_OR_RETURN(probabilities_, stream.scratch(kProbabilities, lists, blocks));
  }
  EI_ASSIGN_OR_RETURN(exchange_, stream.shared(kExchange, layers * exchanged_floats(lists)));
  for (Track& track : tracks_) {
    track.recorded = track.attends = false;
    track.run.assign(static_cast<size_t>(num_segments), {});
    for (int32_t i = 0; i < num_segments; ++i) {
      policy::SegmentRecord& record = track.run[static_cast<size_t>(i)];
      record.segment = first_segment + i;
      record.dense = sparse_[static_cast<size_t>(i)] == 0;
      record.heads.resize(static_cast<size_t>(shape_.kv_heads));
    }
  }
  return {};
}

policy::PrefillHistory Planner::history(int layer, size_t i) const {
  policy::PrefillHistory history{.layers = records_};
  const policy::LayerRecords& run = tracks_[static_cast<size_t>(layer)].run;
  if (i > 0) {
    history.previous = &run[i - 1];
    return history;
  }
  // A resumed segment replaces its first part.
  const policy::LayerRecords& past = records(layer);
  const auto behind = std::partition_point(
      past.begin(), past.end(), [&](const policy::SegmentRecord& one) { return one.segment < run.front().segment; });
  if (behind != past.begin()) history.previous = &*std::prev(behind);
  return history;
}

const BlockPlan* Planner::record(Stream& stream, int layer, Matrix q, const KvView& kv, int64_t attending) {
  EI_CHECK(plans(layer));
  Track& track = tracks_[static_cast<size_t>(layer)];
  track.recorded = true;
  // The first segment in which rows attend; all of them do, except in the last layer.
  const int64_t from =
      attending == tokens_ ? 0 : (first_ + tokens_ - attending) / options().segment - rows_.first_segment;
  track.attends =
      attending > 0 && std::count(sparse_.begin() + static_cast<std::ptrdiff_t>(from), sparse_.end(), uint8_t{1}) > 0;

  index_.update(stream, layer, kv, first_ + tokens_);
  if (method_->reads_midrange()) measure_midrange(stream, layer, q);
  if (rates_peaks_) {
    rate_segments(stream, layer, q, kv, from);
  } else {
    if (options().select != BlockRank::kMidrange && track.attends) score_rows(stream, q, kv);
    stream.host([this, layer] { decide(layer); });
  }
  if (!track.attends) return nullptr;
  track.plan.grid = options().grid();
  if (method_->chooses()) return &track.plan;
  stream.select_blocks({.rows = rows_,
                        .values = ranked_values(),
                        .plan = &track.plan,
                        .counts = exchange(layer).counts,
                        .wanted = keep_blocks_});
  return &track.plan;
}

// Scores of the representatives, and their entropy.
void Planner::measure_midrange(Stream& stream, int layer, Matrix q) {
  const int64_t segment = options().segment;
  stream.query_midrange({.q = q.data,
                         .q_stride = q.stride,
                         .tokens = tokens_,
                         .first_rows = first_ % segment != 0 ? segment - first_ % segment : 0,
                         .segment = options().segment,
                         .num_heads = shape_.heads,
                         .head_dim = shape_.head_dim,
                         .out = representatives_.data});
  const bool scaled = options().logit_scale == policy::LogitScale::kInverseSqrtDim;
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
  const int64_t lists = int64_t{rows_.kv_heads} * rows_.num_segments;
  float* const entropy = entropy_ + layer * lists;
  const auto cover = static_cast<float>(method_->covers());
  float* const covering = cover > 0 ? entropy + static_cast<int64_t>(tracks_.size()) * lists : nullptr;
  stream.block_entropy({.rows = rows_,
                        .scores = scores_.data,
                        .previous = policy::fuses(options(), layer, follows) ? probabilities_.data : nullptr,
                        .probabilities = probabilities_.data,
                        .entropy = entropy,
                        .covering = covering,
                        .cover = cover});
  stream.host([this, layer, entropy, covering] {
    policy::LayerRecords& run = tracks_[static_cast<size_t>(layer)].run;
    for (size_t i = 0; i < run.size(); ++i) {
      for (size_t h = 0; h < run[i].heads.size(); ++h) {
        policy::HeadRecord& head = run[i].heads[h];
        head.midrange_entropy = entropy[h * run.size() + i];
        if (covering != nullptr) head.covering = static_cast<int32_t>(covering[h * run.size() + i]);
      }
    }
  });
}

void Planner::score_rows(Stream& stream, Matrix q, const KvView& kv) {
  stream.row_scores({.kind = row_score(options().select),
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
}

// On the host, while the stream runs: what was measured to counts to the layout of the plan.
void Planner::decide(int layer) {
  Track& track = tracks_[static_cast<size_t>(layer)];
  const policy::SegmentPlace place{.layer = layer, .segment = rows_.first_segment};
  method_->decide(place, history(layer, 0), track.run);
  for (policy::SegmentRecord& record : track.run) {
    if (!record.dense) continue;
    for (policy::HeadRecord& head : record.heads) head.blocks = record.segment * options().grid().blocks_per_segment();
  }
  policy::lay_out_plan(options().grid(), track.run, track.plan);
  if (method_->chooses()) name_blocks(layer);
  int32_t* const counts = exchange(layer).counts;
  for (size_t list = 0; list + 1 < track.plan.offsets.size(); ++list) {
    const auto count = static_cast<int32_t>(track.plan.offsets[list + 1] - track.plan.offsets[list]);
    counts[list] = track.plan.dense[list % track.run.size()] != 0 ? -1 : count;
  }
}

void Planner::name_blocks(int layer) {
  BlockPlan& plan = tracks_[static_cast<size_t>(layer)].plan;
  for (size_t list = 0; list + 1 < plan.offsets.size(); ++list) {
    const auto segments = static_cast<size_t>(plan.num_segments);
    const auto segment = rows_.first_segment + static_cast<int32_t>(list % segments);
    const auto count = static_cast<size_t>(plan.offsets[list + 1] - plan.offsets[list]);
    method_->choose({.layer = layer, .segment = segment}, list / segments,
                    {plan.blocks.data() + plan.offsets[list], count});
  }
}

const float* Planner::ranked_values() const {
  if (options().select != BlockRank::kMidrange) return ranks_.data;
  return policy::ranks_on_probabilities(options()) ? probabilities_.data : scores_.data;
}

double Planner::finish_chunk() {
  double pairs = 0;
  for (size_t layer = 0; layer < tracks_.size(); ++layer) {
    Track& track = tracks_[layer];
    if (!track.recorded) continue;
    pairs += pairs_left_out(track.plan);
    if (keep_blocks_ && track.attends) {
      for (size_t i = 0; i < track.run.size(); ++i) {
        for (size_t h = 0; h < track.run[i].heads.size(); ++h) {
          const size_t list = h * track.run.size() + i;
          track.run[i].heads[h].chosen.assign(track.plan.blocks.begin() + track.plan.offsets[list],
                                              track.plan.blocks.begin() + track.plan.offsets[list + 1]);
        }
      }
    }
    policy::LayerRecords& past = records_[layer];
    if (!past.empty() && past.back().segment == track.run.front().segment) past.pop_back();
    past.insert(past.end(), std::make_move_iterator(track.run.begin()), std::make_move_iterator(track.run.end()));
  }
  return pairs;
}

double Planner::pairs_left_out(const BlockPlan& plan) const {
  double pairs = 0;
  for (int32_t i = 0; i < plan.num_segments; ++i) {
    if (plan.dense[static_cast<size_t>(i)] != 0) continue;
    const int32_t segment = plan.first_segment + i;
    const int64_t begin = int64_t{segment} * options().segment;
    for (int32_t h = 0; h < plan.kv_heads; ++h) {
      const auto list = static_cast<size_t>(h * plan.num_segments + i);
      const int64_t read = (plan.offsets[list + 1] - plan.offsets[list]) * options().block;
      pairs += static_cast<double>(rows_of(segment)) * static_cast<double>(begin - read);
    }
  }
  return pairs;
}

void Planner::truncate(int64_t position) {
  const auto keep = static_cast<int32_t>(position / options().segment);  // whole segments
  index_.truncate(position);
  for (policy::LayerRecords& records : records_)
    while (!records.empty() && records.back().segment >= keep) records.pop_back();
}

int64_t Planner::bytes_for(int64_t end) const {
  const int64_t blocks = end / options().block;
  return index_.bytes_for(end) + int64_t{shape_.kv_heads} * 3 * blocks * static_cast<int64_t>(sizeof(float));
}

}  // namespace ei::sparse
