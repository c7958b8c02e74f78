// The launches of rating_cuda.h: memory laid out, steps in their order.
#include <algorithm>
#include <atomic>

#include "base/check.h"
#include "kernels/block_scores/cuda/rating_work.cuh"

namespace ei::kernels::cuda {
namespace {

constexpr float kLog2E = 1.44269504f;

std::atomic<size_t> together_in = kRatedTogether;

// Blocks of 8, 16 or 32 keys of 16 bits.
bool in_panels(const DevicePages& pages, int32_t block) {
  const int32_t parts = block / kPanelKeys;
  return pages.blocked && (parts == 1 || parts == 2 || parts == 4);
}

bool rates_by_wgmma(const DeviceTraits& traits, const DevicePages& pages, int32_t block) {
  const int32_t most = pages.shape.head_dim == 256 ? 2 : 4;
  const bool hopper = traits.capability == 90 && traits.set != KernelSet::kPortable;
  return hopper && in_panels(pages, block) && block / kPanelKeys <= most;
}

class Carve {
 public:
  explicit Carve(void* memory) : begin_(static_cast<std::byte*>(memory)) {}
  template <typename T>
  T* take(int64_t count) {
    const size_t at = used_;
    used_ += (static_cast<size_t>(count) * sizeof(T) + 255) / 256 * 256;
    return begin_ == nullptr ? nullptr : reinterpret_cast<T*>(begin_ + at);
  }
  size_t used() const { return used_; }

 private:
  std::byte* begin_;
  size_t used_ = 0;
};

RatingArgs lay_out(const DeviceTraits& traits, const RatingParams& params, size_t& bytes) {
  const BlockRows& rows = params.rows;
  RatingArgs args{};
  args.params = params;
  args.group = params.num_heads / rows.kv_heads;
  args.dim = params.pages.shape.head_dim;
  args.parts = rows.grid.block / kPanelKeys;
  args.super_blocks = blocks_per_super(rows.grid);
  args.num_tasks = rows.kv_heads * params.num_active;
  args.wgmma = rates_by_wgmma(traits, params.pages, rows.grid.block);
  args.fast = args.wgmma || rates_rounded(params.pages, rows.grid);
  args.peak_rows = params.rounded.codes != nullptr ? kRoundedRows : kRatingRows;
  // Heads are weighed one by one even where one query speaks for them.
  args.max_rows = args.group * (params.sampling ? kSampleRows : rows.grid.segment);
  int32_t last = 0;
  for (int32_t i = 0; i < params.num_active; ++i) last = std::max(last, params.segments[i]);
  // The first segment sees no block; a grid is never empty.
  args.max_blocks = std::max<int64_t>(1, (rows.visible(last) + 15) / 16) * 16;
  args.max_supers = std::max<int64_t>(1, rows.visible(last) / args.super_blocks);
  args.max_splits = static_cast<int32_t>((args.max_blocks * args.parts + kSplitPanels - 1) / kSplitPanels);
  args.max_splits = std::max(args.max_splits, 1);
  args.scale = params.scale * kLog2E;
  const int64_t tasks = args.num_tasks;
  args.max_rated = params.sampling ? args.max_rows : static_cast<int32_t>(params.most_queries) * rows.grid.segment;
  const int64_t all = tasks * args.max_rows;
  const int64_t rated = tasks * args.max_rated;
  Carve carve(params.room);
  args.tasks = carve.take<RatingTask>(tasks);
  for (int32_t*& first : args.first_item) first = carve.take<int32_t>(tasks + 1);
  args.queries = carve.take<std::byte>(all * args.dim * (args.fast ? 2 : 4));
  for (float** part : {&args.own, &args.sink, &args.found, &args.row_distances}) *part = carve.take<float>(all);
  for (float** part : {&args.grown, &args.far_sum}) *part = carve.take<float>(rated);
  args.super_bounds = carve.take<uint32_t>(tasks * args.max_supers);
  args.row_list = carve.take<int32_t>(all);
  args.super_list = carve.take<int32_t>(tasks * args.max_supers);
  args.mass = carve.take<float4>(tasks * ((args.max_blocks + 255) / 256));
  args.parts_sum = carve.take<float>(rated * args.max_splits);
  args.peaks = carve.take<uint16_t>(rated * args.max_blocks);
  bytes = carve.used();
  return args;
}

int multiply(const DeviceTraits& traits, const RatingArgs& args, Products kind, void* stream) {
  if (!args.fast) return rating_plain(args, kind, traits.num_sms, stream);
  if (!args.wgmma) return rating_sm80(args, kind, traits.num_sms, stream);
  if (kind == Products::kPeaks && args.params.rounded.codes != nullptr)
    return rounded_peaks(args, traits.num_sms, stream);
  const DType type = args.params.pages.shape.key_type;
  switch (args.dim) {
    case 64: return rating_64_sm90a(args, kind, type, traits.num_sms, stream);
    case 96: return rating_96_sm90a(args, kind, type, traits.num_sms, stream);
    case 128: return rating_128_sm90a(args, kind, type, traits.num_sms, stream);
    default: return rating_256_sm90a(args, kind, type, traits.num_sms, stream);
  }
}

}  // namespace

size_t rated_together() { return together_in; }

void rate_together_in(size_t bytes) { together_in = bytes > 0 ? bytes : kRatedTogether; }

bool rates_rounded(const DevicePages& pages, const SegmentGrid& grid) {
  return in_panels(pages, grid.block) && grid.segment % kUnitKeys == 0;
}

size_t rating_bytes(const DeviceTraits& traits, const RatingParams& params) {
  RatingParams empty = params;
  empty.room = nullptr;
  size_t bytes = 0;
  lay_out(traits, empty, bytes);
  return bytes;
}

size_t rating_bytes_at(const DeviceTraits& traits, const RatingParams& params, int64_t tokens, int64_t segments) {
  RatingParams last = params;
  last.rows.first_segment = 0;
  last.segments[0] = static_cast<int32_t>(tokens / params.rows.grid.segment);
  last.num_active = 1;
  const size_t one = rating_bytes(traits, last);
  const auto together = static_cast<size_t>(std::clamp<int64_t>(segments, 1, kMostSegments));
  return std::max(one, std::min(together * one, rated_together()));
}

int64_t rating_estimate(const DeviceTraits& traits, const DevicePages& pages, const KeyIndexShape& shape,
                        int64_t tokens, int64_t segments) {
  const RatingParams params{.rows = {.grid = shape.grid, .kv_heads = shape.kv_heads},
                            .num_heads = shape.heads,
                            .pages = pages,
                            .most_queries = shape.heads / shape.kv_heads};
  RatingParams sampling = params;
  sampling.sampling = true;
  return static_cast<int64_t>(
      std::max(rating_bytes_at(traits, params, tokens, segments), rating_bytes_at(traits, sampling, tokens, segments)));
}

Status launch_rating(const DeviceTraits& traits, const RatingParams& params, void* stream) {
  EI_CHECK(params.num_active > 0 && params.num_active <= kMostSegments);
  size_t bytes = 0;
  const RatingArgs args = lay_out(traits, params, bytes);
  const auto done = [](int error) { return cuda_status(error, "peak_scores"); };
  if (!params.sampling && params.weighs_heads && args.group > 1) {
    EI_RETURN_IF_ERROR(done(rating_rows(args, /*weigh=*/true, stream)));
    EI_RETURN_IF_ERROR(done(multiply(traits, args, Products::kOwn, stream)));
  }
  EI_RETURN_IF_ERROR(done(rating_rows(args, /*weigh=*/false, stream)));
  if (!params.sampling) EI_RETURN_IF_ERROR(done(rating_choose_rows(args, stream)));
  EI_RETURN_IF_ERROR(done(multiply(traits, args, Products::kOwn, stream)));
  if (!params.sampling) {
    EI_RETURN_IF_ERROR(done(multiply(traits, args, Products::kBounds, stream)));
    EI_RETURN_IF_ERROR(done(rating_choose_supers(args, stream)));
  }
  EI_RETURN_IF_ERROR(done(multiply(traits, args, Products::kPeaks, stream)));
  return done(rating_finish(args, stream));
}

}  // namespace ei::kernels::cuda
