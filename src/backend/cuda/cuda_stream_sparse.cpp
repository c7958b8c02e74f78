// What a sparse prefill measures and chooses, on the GPU: nothing but samples goes to the host, nothing but rankings
// and counts comes from there, and lists of blocks stay where attention reads them.
#include <algorithm>

#include "backend/cuda/cuda_rounds.h"
#include "backend/cuda/cuda_stream.h"
#include "base/check.h"
#include "kernels/block_scores/cuda/covering_cuda.h"
#include "kernels/block_scores/cuda/midrange_cuda.h"
#include "kernels/block_scores/cuda/rating_cuda.h"
#include "kernels/block_scores/cuda/upper_bounds_cuda.h"

namespace ei {

using kernels::cuda::cuda_status;
using kernels::cuda::DeviceKvHead;
using kernels::cuda::DevicePlan;
using kernels::cuda::RoundedKeys;

namespace {
// Where the layer in work has them; nowhere if blocks are rated by the keys of the cache.
RoundedKeys rounded_keys(const kernels::cuda::DevicePages& pages, const kernels::KeyIndex& index) {
  if (!kernels::cuda::rates_rounded(pages, index.shape.grid)) return {};
  return RoundedKeys::in(index.passing, index.shape, index.passing_tokens);
}
}  // namespace

// Runs `work` at once, between the clock's marks; that of a generated token as well.
template <typename Work>
void CudaStream::measure(double* seconds, Work work) {
  if (!open()) return;
  run_recorded();
  at_once_ = true;
  begin_clock(seconds);
  note(work());
  end_clock();
  at_once_ = false;
}

void CudaStream::block_extremes(const kernels::BlockExtremesParams& params) {
  measure(&times_.profile_s, [&]() -> Status {
    EI_ASSIGN_OR_RETURN(const DeviceKvHead* heads, readable_heads(params.kv));
    return kernels::cuda::launch_block_extremes(pages_of(params.kv), heads, params, stream_);
  });
}

void CudaStream::query_midrange(const kernels::QueryMidrangeParams& params) {
  measure(&times_.profile_s, [&] { return kernels::cuda::launch_query_midrange(params, stream_); });
}

void CudaStream::block_scores(const kernels::BlockScoreParams& params) {
  measure(&times_.profile_s, [&] {
    return params.kind == kernels::BlockScore::kUpperBound ? kernels::cuda::launch_upper_bounds(params, stream_)
                                                           : kernels::cuda::launch_block_scores(params, stream_);
  });
}

void CudaStream::block_entropy(const kernels::BlockEntropyParams& params) {
  measure(&times_.profile_s, [&]() -> Status {
    EI_RETURN_IF_ERROR(kernels::cuda::launch_block_entropy(params, stream_));
    return params.covering != nullptr ? kernels::cuda::launch_covering(params, stream_) : Status{};
  });
}

void CudaStream::row_scores(const kernels::RowScoreParams&) {
  note(make_error(ErrorKind::kDevice, "the cuda backend has no row scores"));  // Backend::scores_rows
}

void CudaStream::pack_keys(const kernels::PackKeysParams& params) {
  measure(&times_.profile_s, [&]() -> Status {
    EI_ASSIGN_OR_RETURN(const DeviceKvHead* heads, readable_heads(params.kv));
    const SegmentGrid& grid = params.index.shape.grid;
    const int32_t super_keys = kernels::blocks_per_super(grid) * grid.block;
    const kernels::cuda::PackSupers pack{.pages = pages_of(params.kv),
                                         .heads = heads,
                                         .kv_heads = params.index.shape.kv_heads,
                                         .block = grid.block,
                                         .super_keys = super_keys,
                                         .first = params.first_super,
                                         .last = params.supers,
                                         .index = params.index.kept,
                                         .index_supers = kernels::cuda::index_supers(params.index)};
    EI_RETURN_IF_ERROR(kernels::cuda::launch_pack_supers(pack, stream_));
    const RoundedKeys rounded = rounded_keys(pack.pages, params.index);
    if (rounded.codes == nullptr) return {};
    return kernels::cuda::launch_round_keys({.pages = pack.pages,
                                             .heads = heads,
                                             .kv_heads = pack.kv_heads,
                                             .units = RoundedKeys::units_of(params.length),
                                             .out = rounded},
                                            stream_);
  });
}

void CudaStream::peak_scores(const kernels::PeakScoreParams& params, std::span<const uint8_t> segments) {
  measure(&times_.profile_s, [&]() -> Status {
    EI_ASSIGN_OR_RETURN(const DeviceKvHead* heads, readable_heads(params.kv));
    kernels::cuda::RatingParams rating{.rows = params.rows,
                                       .q = params.q,
                                       .q_stride = params.q_stride,
                                       .tokens = params.tokens,
                                       .first_position = params.first_position,
                                       .num_heads = params.num_heads,
                                       .scale = params.scale,
                                       .pages = pages_of(params.kv),
                                       .heads = heads,
                                       .index = params.index.kept,
                                       .index_supers = kernels::cuda::index_supers(params.index),
                                       .rounded = rounded_keys(pages_of(params.kv), params.index),
                                       .ranking = params.ranking,
                                       .most_queries = params.most_queries,
                                       .weighs_heads = params.weighs_heads,
                                       .sampling = params.sampled_only,
                                       .scores = params.scores,
                                       .samples = params.samples};
    const auto launch = [&]() -> Status {
      const size_t bytes = kernels::cuda::rating_bytes(device_.traits(), rating);
      // As large as such a rating needs at the end of the prompt.
      const size_t most =
          kernels::cuda::rating_bytes_at(device_.traits(), rating, params.index.kept_tokens, params.rows.num_segments);
      EI_ASSIGN_OR_RETURN(rating.room, alone(rating_room_, std::max(bytes, most)));
      EI_RETURN_IF_ERROR(kernels::cuda::launch_rating(device_.traits(), rating, stream_));
      rating.num_active = 0;
      return {};
    };
    const auto fits = [&] {
      return kernels::cuda::rating_bytes(device_.traits(), rating) <= kernels::cuda::rated_together();
    };
    return in_rounds(segments, rating.segments, rating.num_active, fits, launch);
  });
}

void CudaStream::select_blocks(const kernels::SelectBlocksParams& params) {
  if (params.counts == nullptr) return note(make_error(ErrorKind::kDevice, "select_blocks without counts"));
  measure(&times_.plan_s, [&] { return select(params); });
}

Status CudaStream::select(const kernels::SelectBlocksParams& params) {
  const kernels::BlockRows& rows = params.rows;
  const int64_t lists = int64_t{rows.kv_heads} * rows.num_segments;
  int64_t most = 0;
  for (int32_t i = 0; i < rows.num_segments; ++i) most += rows.kv_heads * rows.visible(i);
  // One plan at a time: attention reads it before the next one is chosen.
  const size_t bytes = static_cast<size_t>(lists + 1) * sizeof(int64_t) + static_cast<size_t>(most) * sizeof(int32_t) +
                       static_cast<size_t>(lists) * sizeof(int32_t) + static_cast<size_t>(rows.num_segments);
  EI_ASSIGN_OR_RETURN(void* memory, chosen_room_.device(bytes));
  auto* offsets = static_cast<int64_t*>(memory);
  auto* blocks = reinterpret_cast<int32_t*>(offsets + lists + 1);
  auto* order = blocks + most;
  auto* dense = reinterpret_cast<uint8_t*>(order + lists);
  const kernels::cuda::SelectLists select{.rows = rows,
                                          .values = params.values,
                                          .counts = params.counts,
                                          .offsets = offsets,
                                          .blocks = blocks,
                                          .dense = dense};
  EI_RETURN_IF_ERROR(kernels::cuda::launch_select(select, stream_));
  chosen_ = {.plan = params.plan,
             .lists = {.segment = rows.grid.segment,
                       .block = rows.grid.block,
                       .first_segment = rows.first_segment,
                       .num_segments = rows.num_segments,
                       .dense = dense,
                       .offsets = offsets,
                       .blocks = blocks}};
  if (rows.grid.block % kernels::cuda::kBlockKeys == 0) {
    EI_RETURN_IF_ERROR(kernels::cuda::order_lists(chosen_.lists, rows.kv_heads, order, stream_));
    chosen_.lists.order = order;
  }
  if (!params.wanted) return {};
  EI_ASSIGN_OR_RETURN(const CudaStaging::Piece piece, staging_.take(static_cast<size_t>(most) * sizeof(int32_t)));
  EI_RETURN_IF_ERROR(
      cuda_status(cudaMemcpyAsync(piece.host, blocks, piece.bytes, cudaMemcpyDeviceToHost, stream_), "select_blocks"));
  host([plan = params.plan, from = reinterpret_cast<const int32_t*>(piece.host)] {
    std::copy_n(from, plan->blocks.size(), plan->blocks.begin());
  });
  return {};
}

}  // namespace ei
