// The driver of peak scores, shared by all ISA variants (PeakVariant in block_scores.h; what is computed:
// PeakScoreParams).
//
// Rows are handled in tiles of 32 queries of 8 bits. Where only some rate, those are chosen and copied together. They
// alone go on, each with its normaliser so far: what it finds in its own segment. A worker takes a tile and walks the
// panels of all blocks, or of those whose super-blocks super_bounds most: the best product of each block goes to
// memory, the normaliser is folded on the way. Then, with Z known, each block keeps the best of peak - Z. What a row
// finds depends on nothing but the row and the keys.
//
// An ISA is a struct of static members, in an unnamed namespace as in flash.h:
//   static constexpr int kRows;                                         // of one product, divides kTileRows
//   static constexpr int kRun;                                          // 2, 4 or 8: so many consecutive d lie
//                                                                       // together in both layouts
//   static int64_t key_index(int key, int d, int dim);                  // element of a panel [8 keys, dim]
//   static int64_t query_index(int row, int d);                         // element of [kRows, dim]; d + 8 lies
//                                                                       // 8 * kRows behind d
//   struct Session { explicit Session(int dim); };                      // lives around the products of one dim in a
//                                                                       // thread, one at a time
//   static void products(const int8_t* q, const int8_t* panel, int dim, float* out);  // out: [8 keys, kRows]
//   static void peaks(const int8_t* q, const int8_t* panel, int dim, float* out);     // out: [kRows], best of 8
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <vector>

#include "base/check.h"
#include "base/top_indices.h"
#include "kernels/attention/cpu/flash.h"
#include "kernels/block_scores/cpu/block_scores.h"
#include "kernels/block_scores/cpu/peak_keys.h"
#include "kernels/block_scores/cpu/peak_layout.h"
#include "kernels/block_scores/cpu/peak_math.h"
#include "kernels/block_scores/cpu/peak_rows.h"
#include "kernels/simd/wide.h"

namespace ei::kernels {

template <typename Isa>
class RowPeaks {
 public:
  static size_t scratch_bytes(const PeakScoreParams& params, int workers) {
    return PeakLayout(params, nullptr, workers).bytes;
  }

  static void place_queries(const PeakScoreParams& params, void* scratch, WorkQueue& queue, Worker worker) {
    const PeakLayout layout(params, scratch, worker.count);
    const int64_t heads = params.rows.kv_heads;
    for (int64_t piece = queue.take(); piece < heads * layout.tiles; piece = queue.take()) {
      const int64_t h = piece % heads;
      const int64_t tile = piece / heads;
      if (tile < layout.tiles_of(h) && !params.ranking_of(h).latest) PeakRows<Isa>::place_tile(layout, h, tile);
    }
  }

  static void choose_rows(const PeakScoreParams& params, void* scratch, WorkQueue& queue, Worker worker) {
    const PeakLayout layout(params, scratch, worker.count);
    for (int64_t h = queue.take(); h < params.rows.kv_heads; h = queue.take()) {
      const BlockRanking& ranking = params.ranking_of(h);
      layout.rows[h] = ranking.latest ? 0 : layout.rows_of(h);
      if (ranking.latest || !layout.samples_rows(h)) continue;
      layout.rows[h] = ranking.rows * layout.queries_of(h);
      gather_rows(layout, h);
    }
  }

  static void find(const PeakScoreParams& params, void* scratch, WorkQueue& queue, Worker worker) {
    const PeakLayout layout(params, scratch, worker.count);
    const int64_t heads = params.rows.kv_heads;
    for (int64_t piece = queue.take(); piece < heads * layout.tiles; piece = queue.take()) {
      const int64_t h = piece % heads;
      if (piece / heads < layout.rating_tiles(h)) PeakRows<Isa>::find(layout, h, piece / heads);
    }
  }

  static void choose_blocks(const PeakScoreParams& params, void* scratch, WorkQueue& queue, Worker worker) {
    const PeakLayout layout(params, scratch, worker.count);
    for (int64_t h = queue.take(); h < params.rows.kv_heads; h = queue.take()) {
      layout.candidates[h] = layout.visible;
      if (!params.ranking_of(h).latest && layout.rates_candidates(h)) choose_candidates(layout, h);
    }
  }

  static void score(const PeakScoreParams& params, void* scratch, WorkQueue& queue, Worker worker) {
    const PeakLayout layout(params, scratch, worker.count);
    const int64_t heads = params.rows.kv_heads;
    float* peaks = layout.peaks + worker.index * layout.visible * kTileRows;
    // The sample of a kv_head, the longest piece, comes before its tiles.
    for (int64_t piece = queue.take(); piece < heads * (layout.tiles + 1); piece = queue.take()) {
      const int64_t h = piece % heads;
      const int64_t tile = piece / heads - 1;
      if (tile < 0) {
        if (params.ranking_of(h).sampling != Sampling::kNone) sample(layout, h, peaks);
      } else if (tile < layout.rating_tiles(h)) {
        score_tile(layout, h, layout.blocks_of(h), layout.rating(h, tile), peaks,
                   layout.partial + (h * layout.tiles + tile) * layout.visible);
      }
    }
  }

  static void merge(const PeakScoreParams& params, void* scratch, Worker worker) {
    const PeakLayout layout(params, scratch, worker.count);
    for (int32_t h = 0; h < params.rows.kv_heads; ++h) {
      float* scores = params.scores + params.rows.offset(h, params.segment);
      if (params.ranking_of(h).latest) {
        const Range share = even_share(layout.visible, worker);
        for (int64_t j = share.begin; j < share.end; ++j)
          scores[j] = static_cast<float>(j == 0 ? layout.visible : j) - static_cast<float>(layout.visible);
        continue;
      }
      // A worker's candidates and the blocks up to the next worker's first one.
      const PeakBlocks blocks = layout.blocks_of(h);
      const Range share = even_share(blocks.count, worker);
      if (share.begin == share.end) continue;
      const auto edge = [&](int64_t i) { return i == 0 ? 0 : i == blocks.count ? layout.visible : blocks[i]; };
      std::fill(scores + edge(share.begin), scores + edge(share.end), kNoScore);
      for (int64_t i = share.begin; i < share.end; ++i) {
        float most = kNoScore;
        for (int64_t tile = 0; tile < layout.rating_tiles(h); ++tile)
          most = std::max(most, layout.partial[(h * layout.tiles + tile) * layout.visible + i]);
        scores[blocks[i]] = most * kLn2;
      }
    }
  }

 private:
  static constexpr float kLn2 = 0.69314718056f;

  static void gather_rows(const PeakLayout& layout, int64_t h) {
    const PeakScoreParams& params = layout.params;
    std::vector<uint64_t> scratch;
    std::vector<int32_t> rows;
    const int64_t queries = layout.queries_of(h);
    for (int64_t query = 0; query < queries; ++query) {
      const std::vector<float> distances = row_distances(layout, h, query);
      for (size_t i = 0; i < distances.size() && params.row_distances != nullptr; ++i)
        params.row_distances[h * layout.most_rows + static_cast<int64_t>(i) * queries + query] = distances[i];
      const size_t before = rows.size();
      append_top_indices(distances, params.ranking_of(h).rows, scratch, rows);
      for (size_t i = before; i < rows.size(); ++i) rows[i] = static_cast<int32_t>(rows[i] * queries + query);
    }
    while (rows.size() % kTileRows != 0) rows.push_back(rows.back());
    for (size_t i = 0; i < rows.size(); ++i) {
      const PeakTiles from = layout.at(layout.all, h * layout.tiles + rows[i] / kTileRows);
      const PeakTiles to = layout.at(layout.chosen, h * layout.tiles + static_cast<int64_t>(i) / kTileRows);
      const int source = rows[i] % kTileRows;
      const int target = static_cast<int>(i % kTileRows);
      to.scale[target] = from.scale[source];
      to.token[target] = from.token[source];
      const int8_t* row = from.q + source / Isa::kRows * Isa::kRows * layout.dim;
      int8_t* place = to.q + target / Isa::kRows * Isa::kRows * layout.dim;
      for (int d = 0; d < layout.dim; d += Isa::kRun)
        std::memcpy(place + Isa::query_index(target % Isa::kRows, d), row + Isa::query_index(source % Isa::kRows, d),
                    Isa::kRun);
    }
  }

  // Squared, of one query of every row, as it was rounded, from the mean over the rows.
  static std::vector<float> row_distances(const PeakLayout& layout, int64_t h, int64_t query) {
    const auto dim = static_cast<size_t>(layout.dim);
    const auto count = static_cast<size_t>(layout.num_rows());
    const float unit = 1 / (layout.params.scale * static_cast<float>(kLog2e));
    std::vector<float> values(count * dim);
    std::vector<float> mean(dim);
    for (size_t i = 0; i < count; ++i) {
      const int64_t row = static_cast<int64_t>(i) * layout.queries_of(h) + query;
      const PeakTiles tile = layout.at(layout.all, h * layout.tiles + row / kTileRows);
      const auto in_tile = static_cast<int>(row % kTileRows);
      const int8_t* from = tile.q + in_tile / Isa::kRows * Isa::kRows * layout.dim;
      float* to = values.data() + i * dim;
      for (size_t d = 0; d < dim; ++d) {
        const auto run = static_cast<int>(d - d % Isa::kRun);
        to[d] =
            tile.scale[in_tile] * unit * from[Isa::query_index(in_tile % Isa::kRows, run) + static_cast<int>(d) - run];
      }
      for (size_t d = 0; d < dim; ++d) mean[d] += to[d];
    }
    for (float& element : mean) element /= static_cast<float>(count);
    std::vector<float> distances(count);
    for (size_t i = 0; i < count; ++i)
      for (size_t d = 0; d < dim; ++d) {
        const float apart = values[i * dim + d] - mean[d];
        distances[i] += apart * apart;
      }
    return distances;
  }

  // The super-blocks that super_bounds most, the first one and what lies behind the last whole one.
  static void choose_candidates(const PeakLayout& layout, int64_t h) {
    std::vector<float> super_bounds(static_cast<size_t>(layout.supers), kNoScore);
    for (int64_t tile = 0; tile < layout.rating_tiles(h); ++tile) {
      const float* of_tile = layout.super_bounds + (h * layout.tiles + tile) * layout.supers;
      for (size_t super = 0; super < super_bounds.size(); ++super)
        super_bounds[super] = std::max(super_bounds[super], of_tile[super]);
    }
    if (layout.params.super_bounds != nullptr) {
      for (size_t super = 0; super < super_bounds.size(); ++super)
        layout.params.super_bounds[h * layout.supers + static_cast<int64_t>(super)] = super_bounds[super] * kLn2;
    }
    super_bounds[0] = std::numeric_limits<float>::max();
    const int64_t width = layout.params.keys.super_blocks;
    std::vector<uint64_t> scratch;
    std::vector<int32_t> supers;
    append_top_indices(super_bounds, std::max<int64_t>(1, layout.params.ranking_of(h).candidates / width), scratch,
                       supers);
    int32_t* list = layout.blocks + h * layout.visible;
    int64_t count = 0;
    for (const int32_t super : supers)
      for (int64_t j = super * width; j < (super + 1) * width; ++j) list[count++] = static_cast<int32_t>(j);
    for (int64_t j = layout.supers * width; j < layout.visible; ++j) list[count++] = static_cast<int32_t>(j);
    layout.candidates[h] = count;
  }

  // Lists of blocks have gaps at which the hardware loses the track.
  static constexpr int64_t kAhead = 6;
  static void fetch_block(const PeakLayout& layout, int64_t h, int64_t block) {
    const PeakScoreParams& params = layout.params;
    const int64_t bytes = params.rows.grid.block * layout.dim;
    const int8_t* keys = params.keys.keys + h * params.keys.capacity * kPanelKeys * layout.dim + block * bytes;
    for (int64_t line = 0; line < bytes; line += 64) __builtin_prefetch(keys + line);
  }

  // Peaks [blocks, kTileRows] of one tile; tile.max becomes log2 Z. best (may be null): [blocks].
  static void score_tile(const PeakLayout& layout, int64_t h, const PeakBlocks& blocks, const PeakTiles& tile,
                         float* peaks, float* best) {
    constexpr int64_t kStrip = 64;
    [[maybe_unused]] const typename Isa::Session session(static_cast<int>(layout.dim));
    for (int64_t strip = 0; strip < blocks.count; strip += kStrip) {
      const int64_t end = std::min(strip + kStrip, blocks.count);
      for (int64_t i = strip; i < end; ++i) {
        fetch_block(layout, h, blocks[std::min(i + kAhead, blocks.count - 1)]);
        PeakRows<Isa>::block_peaks(layout.params, h, blocks[i], tile, peaks + i * kTileRows);
      }
      fold(peaks + strip * kTileRows, end - strip, kNoScore, tile.max, tile.sum);
    }
    for (int r = 0; r < kTileRows; ++r) tile.max[r] += std::log2(tile.sum[r]);
    for (int64_t i = 0; best != nullptr && i < blocks.count; ++i)
      best[i] = largest_gap(peaks + i * kTileRows, tile.max);
  }

  // Shares and entropies of the attention of sampled rows, the peak of a block standing for its mass.
  static void sample(const PeakLayout& layout, int64_t h, float* peaks) {
    const int64_t tiles = layout.params.ranking_of(h).sampling == Sampling::kHeads ? layout.group : 1;
    const PeakTiles tile = layout.at(layout.sample, h);
    std::vector<float> mass(static_cast<size_t>(layout.visible));  // of every block, over the rows
    float row_entropies = 0;                                       // of far distributions, each times its far share
    for (int64_t i = 0; i < tiles; ++i) {
      PeakRows<Isa>::prepare_sample(layout, h, i, tiles);
      score_tile(layout, h, {nullptr, layout.visible}, tile, peaks, nullptr);
      row_entropies += add_mass(layout, tile, peaks, mass.data());
    }
    const auto rows = static_cast<float>(tiles * kTileRows);
    const int64_t distant = std::max<int64_t>(layout.visible - layout.params.rows.grid.blocks_per_segment(), 1);
    float far = 0;
    float nearer = 0;
    float mass_log = 0;
    for (int64_t j = 1; j < layout.visible; ++j) {
      const float of_block = mass[static_cast<size_t>(j)];
      far += of_block;
      if (j >= distant) nearer += of_block;
      if (of_block > 0) mass_log += of_block * std::log(of_block);
    }
    AttentionSample& out = layout.params.sample_of(h);
    out = {.sink = mass[0] / rows, .far = far / rows, .distant = (far - nearer) / rows};
    if (far <= 0) return;
    out.segment_entropy = std::max(0.0f, std::log(far) - mass_log / far);
    out.row_entropy = std::max(0.0f, row_entropies / far);
  }

  // Adds the attention of a scored tile to `mass`; gives the sum of its rows' entropies, each times its far share.
  static float add_mass(const PeakLayout& layout, const PeakTiles& tile, const float* peaks, float* mass) {
    Four of_row[kTileRows / 4] = {};  // far share of each row
    Four p_log2_p = {};
    for (int64_t j = 0; j < layout.visible; ++j) {
      Four sum = {};
      for (int r = 0; r < kTileRows / 4; ++r) {
        const Four log2_p = load(peaks + j * kTileRows + 4 * r) - load(tile.max + 4 * r);
        const Four p = exp2_low(log2_p);
        sum += p;
        if (j == 0) continue;
        of_row[r] += p;
        p_log2_p += p * log2_p;
      }
      mass[j] += (sum[0] + sum[1]) + (sum[2] + sum[3]);
    }
    float rows_log = 0;
    for (const Four& shares : of_row)
      for (int lane = 0; lane < 4; ++lane)
        if (shares[lane] > 0) rows_log += shares[lane] * std::log(shares[lane]);
    return rows_log - ((p_log2_p[0] + p_log2_p[1]) + (p_log2_p[2] + p_log2_p[3])) * kLn2;
  }
};

template <typename Isa>
constexpr PeakVariant make_peak_variant(std::string_view name, std::string_view attention, bool (*usable)()) {
  using Peaks = RowPeaks<Isa>;
  return {.name = name,
          .attention = attention,
          .usable = usable,
          .scratch_bytes = Peaks::scratch_bytes,
          .pack_keys = PeakKeys<Isa>::pack,
          .steps = {Peaks::place_queries, Peaks::choose_rows, Peaks::find, Peaks::choose_blocks, Peaks::score},
          .merge = Peaks::merge};
}

}  // namespace ei::kernels
