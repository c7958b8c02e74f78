// The rows of peak scores (row_peaks.h): queries to 8 bits, what those that rate find in their own segment and the
// first block, and bounds of what they may find further back, by super-blocks. Isa: see row_peaks.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/attention/cpu/flash.h"
#include "kernels/block_scores/cpu/peak_keys.h"
#include "kernels/block_scores/cpu/peak_layout.h"
#include "kernels/block_scores/cpu/peak_math.h"

namespace ei::kernels {

template <typename Isa>
class PeakRows {
 public:
  // The queries of a tile of all rows.
  static void place_tile(const PeakLayout& layout, int64_t h, int64_t tile) {
    const BlockRanking& ranking = layout.params.ranking_of(h);
    const PeakTiles to = layout.at(layout.all, h * layout.tiles + tile);
    const int64_t queries = layout.queries_of(h);
    const auto index = [&](int row) { return std::min(tile * kTileRows + row, layout.rows_of(h) - 1); };
    for (int row = 0; row < kTileRows; ++row) to.token[row] = layout.tokens.begin + index(row) / queries;
    std::vector<float> weights(static_cast<size_t>(kTileRows * layout.group), 1.0f / static_cast<float>(layout.group));
    if (ranking.queries == GroupQuery::kLeastLocal) weigh_heads(layout, h, to, weights);
    if (ranking.queries == GroupQuery::kEach) {
      std::fill(weights.begin(), weights.end(), 0.0f);
      for (int row = 0; row < kTileRows; ++row)
        weights[static_cast<size_t>(row * layout.group + index(row) % queries)] = 1;
    }
    place_rows(layout, h, weights.data(), to);
  }

  // What the rows of a tile that rates find nearby, and bounds of what they may find further back.
  static void find(const PeakLayout& layout, int64_t h, int64_t tile) {
    const PeakTiles rows = layout.rating(h, tile);
    fold_own(layout, h, rows);
    if (layout.rates_candidates(h))
      bound_supers(layout, h, rows, layout.super_bounds + (h * layout.tiles + tile) * layout.supers);
  }

  // Tile i of `tiles`: the mean query of the group, or its head i.
  static void prepare_sample(const PeakLayout& layout, int64_t h, int64_t i, int64_t tiles) {
    const PeakTiles to = layout.at(layout.sample, h);
    // Evenly over the rows, those of the heads between each other.
    const int64_t all = tiles * kTileRows;
    for (int row = 0; row < kTileRows; ++row)
      to.token[row] = layout.tokens.begin + (2 * (row * tiles + i) + 1) * layout.num_rows() / (2 * all);
    const bool mean = layout.params.ranking_of(h).sampling == Sampling::kMean;
    std::vector<float> weights(static_cast<size_t>(kTileRows * layout.group),
                               mean ? 1.0f / static_cast<float>(layout.group) : 0.0f);
    for (int64_t row = 0; row < kTileRows && !mean; ++row) weights[static_cast<size_t>(row * layout.group + i)] = 1;
    place_rows(layout, h, weights.data(), to);
    fold_own(layout, h, to);
  }

  // The best product of every row with the keys of block j, in logits of base 2.
  static void block_peaks(const PeakScoreParams& params, int64_t h, int64_t j, const PeakTiles& tile, float* out) {
    const int64_t count = params.rows.grid.block / kPanelKeys;
    const int dim = params.kv.head_dim;
    float raw[kTileRows];
    for (int64_t p = 0; p < count; ++p) {
      const int64_t at = h * params.keys.capacity + j * count + p;
      const int8_t* panel = params.keys.keys + at * kPanelKeys * dim;
      for (int r = 0; r < kTileRows; r += Isa::kRows) Isa::peaks(tile.q + r * dim, panel, dim, raw + r);
      const float scale = params.keys.key_scales[at];
      for (int r = 0; r < kTileRows; r += kRowLanes) {
        const RowVec x = load_rows(raw + r) * (load_rows(tile.scale + r) * scale);
        store_rows(out + r, p > 0 ? larger(x, load_rows(out + r)) : x);
      }
    }
  }

 private:
  static void place_query(const float* values, int dim, int row, int8_t* tile, float& scale) {
    int8_t small[kMostDim];
    scale = quantise(values, dim, small);
    int8_t* block = tile + row / Isa::kRows * Isa::kRows * dim;
    for (int d = 0; d < dim; d += Isa::kRun)
      std::memcpy(block + Isa::query_index(row % Isa::kRows, d), small + d, Isa::kRun);
  }

  // One query per row: the heads of the group by their weights [kTileRows, group], to logits of base 2.
  static void place_rows(const PeakLayout& layout, int64_t h, const float* weights, const PeakTiles& to) {
    float query[kMostDim];
    for (int row = 0; row < kTileRows; ++row) {
      mix_query(layout, h, to.token[row], weights + row * layout.group, query);
      place_query(query, static_cast<int>(layout.dim), row, to.q, to.scale[row]);
    }
  }

  static void mix_query(const PeakLayout& layout, int64_t h, int64_t token, const float* weights, float* query) {
    const PeakScoreParams& params = layout.params;
    const float* q = params.q + token * params.q_stride + h * layout.group * layout.dim;
    const float scale = params.scale * static_cast<float>(kLog2e);
    std::fill_n(query, layout.dim, 0.0f);
    for (int64_t g = 0; g < layout.group; ++g) {
      const float share = weights[g] * scale;
      for (int64_t d = 0; d < layout.dim; ++d) query[d] += share * q[g * layout.dim + d];
    }
  }

  // Softmax over the heads of -(what the head finds in its own segment): who finds least ranks. `to` serves as working
  // memory.
  static void weigh_heads(const PeakLayout& layout, int64_t h, const PeakTiles& to, std::vector<float>& weights) {
    std::vector<float> own(weights.size());
    std::vector<float> single(weights.size());
    const auto group = static_cast<size_t>(layout.group);
    for (size_t g = 0; g < group; ++g) {
      for (size_t row = 0; row < kTileRows; ++row)
        for (size_t other = 0; other < group; ++other) single[row * group + other] = other == g ? 1.0f : 0.0f;
      place_rows(layout, h, single.data(), to);
      fold_own(layout, h, to);
      for (size_t row = 0; row < kTileRows; ++row) own[row * group + g] = to.max[row] + std::log2(to.sum[row]);
    }
    for (size_t row = 0; row < kTileRows; ++row) {
      const float* found = own.data() + row * group;
      const float least = *std::min_element(found, found + group);
      float total = 0;
      for (size_t g = 0; g < group; ++g) total += weights[row * group + g] = std::exp2(least - found[g]);
      for (size_t g = 0; g < group; ++g) weights[row * group + g] /= total;
    }
  }

  // The keys of the segment itself, up to each row's own.
  static void fold_own(const PeakLayout& layout, int64_t h, const PeakTiles& tile) {
    const PeakScoreParams& params = layout.params;
    const auto dim = static_cast<int>(layout.dim);
    std::fill_n(tile.max, kTileRows, kNoScore);
    std::fill_n(tile.sum, kTileRows, 0.0f);
    const int64_t own = layout.own_begin();
    const auto [first_token, last_token] = std::minmax_element(tile.token, tile.token + kTileRows);
    const int64_t seen_by_all = params.first_position + *first_token;
    const int64_t last = params.first_position + *last_token;
    float raw[kPanelKeys * Isa::kRows];
    constexpr int kStrip = 64;  // keys
    alignas(64) float strip[kStrip * kTileRows];
    int filled = 0;
    [[maybe_unused]] const typename Isa::Session session(dim);
    for (int64_t panel = own / kPanelKeys; panel * kPanelKeys <= last; ++panel) {
      float* logits = strip + filled * kTileRows;
      const int64_t at = h * params.keys.capacity + panel;
      for (int r = 0; r < kTileRows; r += Isa::kRows) {
        Isa::products(tile.q + r * dim, params.keys.keys + at * kPanelKeys * dim, dim, raw);
        for (int row = 0; row < Isa::kRows; row += 4) {
          const Four unit = load(tile.scale + r + row) * params.keys.key_scales[at];
          for (int key = 0; key < kPanelKeys; ++key)
            store(logits + key * kTileRows + r + row, load(raw + key * Isa::kRows + row) * unit);
        }
      }
      for (int key = 0; key < kPanelKeys; ++key) {
        const int64_t slot = panel * kPanelKeys + key;
        if (slot >= own && slot <= seen_by_all) continue;
        for (int row = 0; row < kTileRows; ++row)
          if (slot < own || slot > params.first_position + tile.token[row]) logits[key * kTileRows + row] = kNoScore;
      }
      filled += kPanelKeys;
      if (filled < kStrip && (panel + 1) * kPanelKeys <= last) continue;
      fold(strip, filled, kNoScore, tile.max, tile.sum);
      filled = 0;
    }
  }

  static void bound_supers(const PeakLayout& layout, int64_t h, const PeakTiles& tile, float* super_bounds) {
    const int64_t dim = layout.dim;
    // Both signs of a query side by side: its product with a super-block's extremes bounds that with any of its keys.
    alignas(64) int8_t split[kTileRows * 2 * kMostDim];
    const int64_t part = Isa::kRows * dim;
    for (int64_t from = 0; from < kTileRows * dim; from += part) {
      for (int64_t i = 0; i < part; ++i) split[2 * from + i] = std::max<int8_t>(tile.q[from + i], 0);
      for (int64_t i = 0; i < part; ++i) split[2 * from + part + i] = std::min<int8_t>(tile.q[from + i], 0);
    }
    float found[kTileRows];
    {
      [[maybe_unused]] const typename Isa::Session session(static_cast<int>(dim));
      block_peaks(layout.params, h, 0, tile, found);
    }
    for (int row = 0; row < kTileRows; ++row) {
      const float own = tile.max[row] + std::log2(tile.sum[row]);
      const float high = std::max(own, found[row]);
      found[row] = high + std::log2(std::exp2(own - high) + std::exp2(found[row] - high));
    }
    bound_supers(layout, h, split, tile.scale, found, super_bounds);
  }

  // Bounds of super-blocks by queries split [kTileRows, 2 * dim], less what the rows have found: the largest of each
  // super-block.
  static void bound_supers(const PeakLayout& layout, int64_t h, const int8_t* split, const float* scale,
                           const float* found, float* super_bounds) {
    const KeyPanels& keys = layout.params.keys;
    const auto dim = static_cast<int>(2 * layout.dim);
    float raw[kPanelKeys * Isa::kRows];
    [[maybe_unused]] const typename Isa::Session session(dim);
    for (int64_t panel = 0; panel * kPanelKeys < layout.supers; ++panel) {
      const int64_t at = (h * keys.bound_capacity + panel) * kPanelKeys;
      const int8_t* extremes = keys.bounds + at * dim;
      // The last panel may hold super-blocks of the segment itself.
      const int64_t seen = std::min<int64_t>(kPanelKeys, layout.supers - panel * kPanelKeys);
      Four best[kPanelKeys];
      for (Four& value : best) value = Four{kNoScore, kNoScore, kNoScore, kNoScore};
      for (int r = 0; r < kTileRows; r += Isa::kRows) {
        Isa::products(split + r * dim, extremes, dim, raw);
        for (int row = 0; row < Isa::kRows; row += 4) {
          const Four unit = load(scale + r + row);
          const Four less = load(found + r + row);
          for (int64_t key = 0; key < seen; ++key)
            best[key] =
                larger(best[key], load(raw + key * Isa::kRows + row) * (unit * keys.bound_scales[at + key]) - less);
        }
      }
      for (int64_t key = 0; key < seen; ++key)
        super_bounds[panel * kPanelKeys + key] =
            std::max(std::max(best[key][0], best[key][1]), std::max(best[key][2], best[key][3]));
    }
  }
};

}  // namespace ei::kernels
