#include "sparse/planner.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/check.h"
#include "policy/prefill/plan_layout.h"

namespace ei::sparse {

namespace {
using policy::BlockRank;
using policy::PrefillOptions;

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
  const bool peaks = wants_peaks(options) && backend.rates_peaks(key_shape(options, shape));
  if (options.select == BlockRank::kMidrange || peaks) return {};
  // Adaptive ratings live by samples of the attention, which come with peaks.
  if (options.select != BlockRank::kAdaptive && backend.scores_rows()) return {};
  return make_error(ErrorKind::kUsage,
                    "the %s backend cannot rate blocks of %d tokens by %s: it rates %s by adaptive and peak, all by "
                    "midrange%s",
                    std::string(backend.name()).c_str(), options.block, policy::block_rank_name(options.select),
                    std::string(backend.rated_blocks()).c_str(),
                    backend.scores_rows() ? "" : "; take one of these, or --device cpu");
}

Planner::Planner(const Backend& backend, const PrefillOptions& options, PlannerShape shape)
    : shape_(std::move(shape)),
      planned_(planned_layers(options, shape_)),
      rates_peaks_(wants_peaks(options) && backend.rates_peaks(key_shape(options, shape_))),
      walk_(policy::make_prefill_method(options, method_shape(backend, shape_, planned_)),
            method_shape(backend, shape_, planned_)),
      index_(backend, {.keys = key_shape(options, shape_),
                       .extremes = walk_.method().reads_midrange(),
                       .rated = rates_peaks_,
                       .planned = planned_}) {}

Status Planner::begin_prompt(int64_t end) {
  walk_.begin_prompt(end);
  return index_.reserve(end);
}

Status Planner::begin_chunk(Stream& stream, int64_t first, int64_t tokens, std::span<std::byte> spare) {
  EI_RETURN_IF_ERROR(index_.begin_chunk(spare));
  walk_.begin_chunk(first, tokens);
  const int64_t segment = options().segment;
  rows_ = {.grid = options().grid(),
           .kv_heads = shape_.kv_heads,
           .first_segment = walk_.first_segment(),
           .num_segments = walk_.num_segments(),
           .stride = (walk_.prompt_end() + segment - 1) / segment * options().grid().blocks_per_segment()};
  const policy::PrefillMethod& method = walk_.method();
  if (method.reads_midrange()) EI_RETURN_IF_ERROR(midrange_.reserve(stream, shape_, rows_, method));
  if (rates_peaks_) EI_RETURN_IF_ERROR(sample_.reserve(stream, shape_, rows_, method));
  if (options().select != BlockRank::kMidrange)
    EI_RETURN_IF_ERROR(rating_.reserve(stream, shape_, rows_, rates_peaks_));
  return select_.reserve(stream, shape_, rows_);
}

const BlockPlan* Planner::record(Stream& stream, int layer, Matrix q, const KvView& kv, int64_t attending) {
  EI_CHECK(plans(layer));
  const policy::PrefillMethod& method = walk_.method();
  LayerTurn turn{.shape = shape_,
                 .rows = rows_,
                 .first = walk_.first(),
                 .tokens = walk_.tokens(),
                 .layer = layer,
                 .q = q,
                 .kv = kv,
                 .places = walk_.begin_layer(layer, attending),
                 .sparse = walk_.sparse()};
  const bool attends = walk_.attends(layer);
  const bool samples = std::any_of(turn.places.begin(), turn.places.end(), [](const auto& one) { return one.sampled; });
  const int64_t end = walk_.first() + walk_.tokens();
  if (given_ != nullptr && given_->names_blocks()) {
    take_given(layer);
    return attends ? &walk_.plan(layer) : nullptr;
  }

  index_.update(stream, layer, kv, end);
  if (rates_peaks_ && (samples || attends)) turn.keys = index_.pack(stream, layer, kv, end);
  if (method.reads_midrange()) midrange_.record(stream, turn, method, index_, follows(layer));
  if (rates_peaks_) sample_.record(stream, turn, rating_.values());
  if (waits()) {
    stream.host([this, layer] { decide(layer); });
  } else {
    decide(layer);
  }
  if (!attends) return nullptr;
  BlockPlan& plan = walk_.plan(layer);
  plan.grid = options().grid();
  if (method.chooses()) return &plan;
  if (options().select != BlockRank::kMidrange) rating_.record(stream, turn, method);
  select_.record(stream, turn, ranked_values(), plan, walk_.keeps_blocks());
  return &plan;
}

void Planner::decide(int layer) {
  policy::LayerRecords& run = walk_.run(layer);
  if (walk_.method().reads_midrange()) midrange_.on_host(layer, run);
  if (rates_peaks_) sample_.on_host(layer, walk_.places(layer), run);
  if (given_ != nullptr) {
    for (policy::SegmentRecord& record : run)
      for (size_t h = 0; h < record.heads.size(); ++h)
        if (record.heads[h].sampled) record.heads[h].sample = given_->sample(layer, record.segment, h);
  }
  walk_.decide(layer);
  if (rates_peaks_) rating_.on_host(layer, run);
  select_.on_host(layer, walk_.plan(layer));
}

// The same for all layers of a chunk: what they share is made by the first one that decides.
bool Planner::waits() const {
  const policy::PrefillMethod& method = walk_.method();
  bool samples = false;
  for (int32_t i = 0; i < walk_.num_segments(); ++i) samples = samples || method.samples(walk_.first_segment() + i);
  return samples || method.reads_midrange();
}

void Planner::take_given(int layer) {
  policy::LayerRecords& run = walk_.run(layer);
  for (policy::SegmentRecord& record : run)
    for (size_t h = 0; h < record.heads.size(); ++h)
      record.heads[h].blocks = static_cast<int32_t>(given_->blocks(layer, record.segment, h).size());
  BlockPlan& plan = walk_.plan(layer);
  policy::lay_out_plan(options().grid(), run, plan);
  for (int32_t h = 0; h < plan.kv_heads; ++h) {
    for (int32_t i = 0; i < plan.num_segments; ++i) {
      const std::span<int32_t> to = plan.blocks_of(plan.list(h, i));
      const auto from = given_->blocks(layer, plan.first_segment + i, static_cast<size_t>(h));
      std::copy_n(from.begin(), to.size(), to.begin());
    }
  }
}

// The layer before is the last one that was planned: those with a window have no blocks.
bool Planner::follows(int layer) const {
  int before = layer - 1;
  while (before >= 0 && !plans(before)) --before;
  return before >= 0 && walk_.begun(before);
}

const float* Planner::ranked_values() const {
  return options().select != BlockRank::kMidrange ? rating_.values() : midrange_.values();
}

void Planner::truncate(int64_t position) {
  index_.truncate(position);
  walk_.truncate(position);
}

std::string Planner::memory() const {
  ByteWriter to;
  walk_.save(to);
  return to.take();
}

Status Planner::recall(std::string_view memory, int64_t position) {
  ByteReader from(memory);
  EI_RETURN_IF_ERROR(walk_.restore(from));
  walk_.truncate(position);
  walk_.begin_prompt(position);
  return {};
}

int64_t Planner::bytes_for(int64_t first, int64_t end, int64_t batch, int64_t spare) const {
  const int64_t segments = walk_.most_segments(first, end, batch);
  const policy::PrefillMethod& method = walk_.method();
  // A rating of every block; mid-range scores, and probabilities made of them.
  const int64_t values = (options().select != BlockRank::kMidrange ? 1 : 0) + (method.reads_midrange() ? 2 : 0);
  // Lists, in memory that grows with them: half as much more, beside what it has grown out of.
  const int64_t halves = 2 * values + 5;
  const int64_t blocks = int64_t{shape_.kv_heads} * segments * (end / options().block + 1);
  return index_.bytes_for(end, segments, spare) + blocks * halves / 2 * static_cast<int64_t>(sizeof(float));
}

}  // namespace ei::sparse
