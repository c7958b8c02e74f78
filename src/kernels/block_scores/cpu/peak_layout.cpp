#include "kernels/block_scores/cpu/peak_layout.h"

#include <algorithm>

namespace ei::kernels {
namespace {

PeakTiles take_tiles(Carver& carver, int64_t count, int64_t dim) {
  return {carver.take<int8_t>(count * kTileRows * dim), carver.take<float>(count * kTileRows),
          carver.take<float>(count * kTileRows), carver.take<float>(count * kTileRows),
          carver.take<int64_t>(count * kTileRows)};
}

}  // namespace

PeakLayout::PeakLayout(const PeakScoreParams& p, void* scratch, int workers) : params(p) {
  const int64_t heads = p.rows.kv_heads;
  const int64_t begin = int64_t{p.rows.first_segment + p.segment} * p.rows.grid.segment - p.first_position;
  tokens = {std::max<int64_t>(begin, 0), std::min(begin + p.rows.grid.segment, p.tokens)};
  dim = p.kv.head_dim;
  group = p.num_heads / heads;
  visible = p.rows.visible(p.segment);
  supers = p.keys.super_blocks > 0 ? visible / p.keys.super_blocks : 0;
  most_rows = (tokens.end - tokens.begin) * p.most_queries;
  tiles = (most_rows + kTileRows - 1) / kTileRows;
  Carver carver(scratch);
  all = take_tiles(carver, heads * tiles, dim);
  chosen = take_tiles(carver, heads * tiles, dim);
  sample = take_tiles(carver, heads, dim);
  rows = carver.take<int64_t>(heads);
  super_bounds = carver.take<float>(heads * tiles * supers);
  candidates = carver.take<int64_t>(heads);
  blocks = carver.take<int32_t>(heads * visible);
  partial = carver.take<float>(heads * tiles * visible);
  peaks = carver.take<float>(workers * visible * kTileRows);
  bytes = carver.used();
}

}  // namespace ei::kernels
