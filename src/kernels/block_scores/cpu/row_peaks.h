// The driver of peak scores, shared by all ISA variants (PeakVariant in block_scores.h; what is computed:
// PeakScoreParams).
//
// Rows are handled in tiles of 32 queries of 8 bits, each with its normaliser so far: what it finds in its own segment.
// A worker takes a tile and walks the panels of all blocks, or of those whose super-blocks promise most: the best
// product of each block goes to memory, the normaliser is folded on the way. Then, with Z known, each block keeps the
// best of peak - Z. What a row finds depends on nothing but the row and the keys.
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

  static void prepare(const PeakScoreParams& params, void* scratch, WorkQueue& queue, Worker worker) {
    const PeakLayout layout(params, scratch, worker.count);
    const int64_t heads = params.rows.kv_heads;
    // One tile more per kv_head: the sample of the probe.
    for (int64_t piece = queue.take(); piece < heads * (layout.tiles + 1); piece = queue.take()) {
      const int64_t h = piece % heads;
      const int64_t tile = piece / heads;
      const HeadCare& care = params.care[h];
      if (tile < layout.tiles_of(h) && !care.latest) {
        PeakRows<Isa>::prepare_rows(layout, h, tile);
      } else if (tile == layout.tiles && care.probe) {
        PeakRows<Isa>::prepare_probe(layout, h);
      }
    }
  }

  static void choose(const PeakScoreParams& params, void* scratch, WorkQueue& queue, Worker worker) {
    const PeakLayout layout(params, scratch, worker.count);
    for (int64_t h = queue.take(); h < params.rows.kv_heads; h = queue.take()) {
      const HeadCare& care = params.care[h];
      layout.rows[h] = care.latest ? 0 : layout.rows_of(h);
      layout.candidates[h] = layout.visible;
      if (care.latest || !layout.asks_some(h)) continue;
      layout.rows[h] = care.rows * layout.voices_of(h);
      choose_rows(layout, h);
      if (care.blocks > 0 && care.blocks < layout.visible) choose_blocks(layout, h);
    }
  }

  static void score(const PeakScoreParams& params, void* scratch, WorkQueue& queue, Worker worker) {
    const PeakLayout layout(params, scratch, worker.count);
    const int64_t heads = params.rows.kv_heads;
    float* peaks = layout.peaks + worker.index * layout.visible * kTileRows;
    for (int64_t piece = queue.take(); piece < heads * (layout.tiles + 1); piece = queue.take()) {
      const int64_t h = piece % heads;
      const int64_t tile = piece / heads;
      if (tile < layout.tiles && tile * kTileRows < layout.rows[h]) {
        const PeakTiles& from = layout.asks_some(h) ? layout.chosen : layout.all;
        score_tile(layout, h, layout.blocks_of(h), layout.at(from, h * layout.tiles + tile), peaks,
                   layout.partial + (h * layout.tiles + tile) * layout.visible);
      } else if (tile == layout.tiles && params.care[h].probe) {
        const PeakTiles sample = layout.at(layout.probe, h);
        score_tile(layout, h, {nullptr, layout.visible}, sample, peaks, nullptr);
        measure(layout, sample, peaks, params.probes + 2 * h);
      }
    }
  }

  static void merge(const PeakScoreParams& params, void* scratch, Worker worker) {
    const PeakLayout layout(params, scratch, worker.count);
    for (int32_t h = 0; h < params.rows.kv_heads; ++h) {
      float* scores = params.scores + params.rows.offset(h, params.segment);
      if (params.care[h].latest) {
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
        for (int64_t tile = 0; tile * kTileRows < layout.rows[h]; ++tile)
          most = std::max(most, layout.partial[(h * layout.tiles + tile) * layout.visible + i]);
        scores[blocks[i]] = most * kLn2;
      }
    }
  }

 private:
  static constexpr float kLn2 = 0.69314718056f;

  static void choose_rows(const PeakLayout& layout, int64_t h) {
    const PeakScoreParams& params = layout.params;
    const float* wanting = layout.wanting + h * layout.tiles * kTileRows;
    const int64_t count = layout.rows_of(h);
    if (params.wanting != nullptr) {
      for (int64_t row = 0; row < count; ++row) params.wanting[h * layout.most_rows + row] = wanting[row] * kLn2;
    }
    std::vector<uint64_t> scratch;
    std::vector<int32_t> rows;
    std::vector<float> of_voice(static_cast<size_t>(layout.num_rows()));
    const int64_t voices = layout.voices_of(h);
    for (int64_t voice = 0; voice < voices; ++voice) {
      for (int64_t i = 0; i < layout.num_rows(); ++i) of_voice[static_cast<size_t>(i)] = wanting[i * voices + voice];
      const size_t before = rows.size();
      append_top_indices(of_voice, params.care[h].rows, scratch, rows);
      for (size_t i = before; i < rows.size(); ++i) rows[i] = static_cast<int32_t>(rows[i] * voices + voice);
    }
    while (rows.size() % kTileRows != 0) rows.push_back(rows.back());
    for (size_t i = 0; i < rows.size(); ++i) {
      const PeakTiles from = layout.at(layout.all, h * layout.tiles + rows[i] / kTileRows);
      const PeakTiles to = layout.at(layout.chosen, h * layout.tiles + static_cast<int64_t>(i) / kTileRows);
      const int source = rows[i] % kTileRows;
      const int target = static_cast<int>(i % kTileRows);
      to.scale[target] = from.scale[source];
      to.max[target] = from.max[source];
      to.sum[target] = from.sum[source];
      to.token[target] = from.token[source];
      const int8_t* row = from.q + source / Isa::kRows * Isa::kRows * layout.dim;
      int8_t* place = to.q + target / Isa::kRows * Isa::kRows * layout.dim;
      for (int d = 0; d < layout.dim; d += Isa::kRun)
        std::memcpy(place + Isa::query_index(target % Isa::kRows, d), row + Isa::query_index(source % Isa::kRows, d),
                    Isa::kRun);
    }
  }

  // The super-blocks that promise most, the first one and what lies behind the last whole one.
  static void choose_blocks(const PeakLayout& layout, int64_t h) {
    std::vector<float> promise(static_cast<size_t>(layout.supers), kNoScore);
    for (int64_t tile = 0; tile < layout.tiles_of(h); ++tile) {
      const float* of_tile = layout.promise + (h * layout.tiles + tile) * layout.supers;
      for (size_t super = 0; super < promise.size(); ++super) promise[super] = std::max(promise[super], of_tile[super]);
    }
    if (layout.params.promise != nullptr) {
      for (size_t super = 0; super < promise.size(); ++super)
        layout.params.promise[h * layout.supers + static_cast<int64_t>(super)] = promise[super] * kLn2;
    }
    promise[0] = std::numeric_limits<float>::max();
    const int64_t width = layout.params.keys.super_blocks;
    std::vector<uint64_t> scratch;
    std::vector<int32_t> supers;
    append_top_indices(promise, std::max<int64_t>(1, layout.params.care[h].blocks / width), scratch, supers);
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

  // Shares of the first block and of the blocks a segment or more before this one, over the rows of a scored tile.
  static void measure(const PeakLayout& layout, const PeakTiles& tile, const float* peaks, float* shares) {
    const BlockRows& rows = layout.params.rows;
    const int64_t far = layout.visible - rows.grid.blocks_per_segment();
    float first = 0;
    Four beyond = {};
    for (int row = 0; row < kTileRows; row += 4) {
      const Four z = load(tile.max + row);
      const Four on_first = exp2_low(load(peaks + row) - z);
      first += (on_first[0] + on_first[1]) + (on_first[2] + on_first[3]);
      for (int64_t j = 1; j < far; ++j) beyond += exp2_low(load(peaks + j * kTileRows + row) - z);
    }
    shares[0] = first / kTileRows;
    shares[1] = ((beyond[0] + beyond[1]) + (beyond[2] + beyond[3])) / kTileRows;
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
          .prepare = Peaks::prepare,
          .choose = Peaks::choose,
          .score = Peaks::score,
          .merge = Peaks::merge};
}

}  // namespace ei::kernels
