#include "sparse/page_reader.h"

#include <algorithm>

#include "policy/kv/quest.h"

namespace ei::sparse {

namespace {
const ScratchSlot kBounds, kPageCounts;
constexpr int64_t kReservedTokens = 8192;  // at a time

std::vector<uint8_t> paged_layers(const policy::KvOptions& options, const PageShape& shape) {
  std::vector<uint8_t> paged = shape.global;
  for (size_t layer = 0; layer < paged.size(); ++layer)
    if (static_cast<int32_t>(layer) < options.read_skip) paged[layer] = 0;
  return paged;
}

SegmentGrid page_grid(const policy::KvOptions& options) { return {.segment = options.page, .block = options.page}; }
}  // namespace

PageReader::PageReader(const Backend& backend, const policy::KvOptions& options, PageShape shape)
    : options_(options),
      shape_(std::move(shape)),
      index_(backend, {.keys = {.heads = shape_.heads,
                                .kv_heads = shape_.kv_heads,
                                .head_dim = shape_.head_dim,
                                .key_type = shape_.key_type,
                                .grid = page_grid(options)},
                       .extremes = true,
                       .rated = false,
                       .planned = paged_layers(options, shape_)}),
      plans_(shape_.global.size()) {}

Result<bool> PageReader::begin_token(int64_t position) {
  position_ = position;
  if (policy::reads_everything(options_, options_.read_skip, position)) return false;
  EI_RETURN_IF_ERROR(index_.reserve((position / kReservedTokens + 1) * kReservedTokens));
  return true;
}

void PageReader::finish_token() { indexed_ = position_ / options_.page * options_.page; }

void PageReader::truncate(int64_t position) {
  indexed_ = std::min(indexed_, position / options_.page * options_.page);
  index_.truncate(indexed_);
}

Result<const BlockPlan*> PageReader::record(Stream& stream, int layer, Matrix q, const KvView& kv) {
  const bool global = shape_.global[static_cast<size_t>(layer)] != 0;
  if (!global || policy::reads_everything(options_, layer, position_)) return nullptr;
  const auto own = static_cast<int32_t>(position_ / options_.page);
  const int64_t count = policy::pages_read(options_, position_);
  const kernels::BlockRows rows{
      .grid = page_grid(options_), .kv_heads = shape_.kv_heads, .first_segment = own, .num_segments = 1, .stride = own};
  EI_ASSIGN_OR_RETURN(const Matrix bounds, stream.scratch(kBounds, shape_.kv_heads, own));
  EI_ASSIGN_OR_RETURN(float* shared, stream.shared(kPageCounts, shape_.kv_heads));
  auto* counts = reinterpret_cast<int32_t*>(shared);
  std::fill_n(counts, shape_.kv_heads, static_cast<int32_t>(count));  // the same in all layers of a token
  index_.update(stream, layer, kv, int64_t{own} * options_.page);
  stream.block_scores({.kind = kernels::BlockScore::kUpperBound,
                       .rows = rows,
                       .queries = q.data,
                       .num_heads = shape_.heads,
                       .head_dim = shape_.head_dim,
                       .keys = index_.view(layer),
                       .scale = 1,
                       .scores = bounds.data});
  BlockPlan& plan = plans_[static_cast<size_t>(layer)];
  plan.grid = rows.grid;
  plan.kv_heads = shape_.kv_heads;
  plan.first_segment = own;
  plan.num_segments = 1;
  plan.dense.assign(1, 0);
  plan.offsets.clear();
  for (int64_t h = 0; h <= shape_.kv_heads; ++h) plan.offsets.push_back(h * count);
  plan.blocks.resize(static_cast<size_t>(plan.offsets.back()));
  stream.select_blocks({.rows = rows, .values = bounds.data, .plan = &plan, .counts = counts, .wanted = false});
  return &plan;
}

}  // namespace ei::sparse
