// The driver of peak scores, shared by all ISA variants (PeakVariant in profile.h; what is computed: PeakScoreParams).
//
// Rows are handled in tiles of 32 queries of 8 bits, each with its normaliser so far: what it finds in its own segment.
// A worker takes a tile and walks all panels: the best product of each block goes to memory, the normaliser is folded
// on the way. Then, with Z known, each block keeps the best of peak - Z. What a row finds depends on nothing but the
// row and the keys.
//
// An ISA is a struct of static members, in an unnamed namespace as in flash.h:
//   static constexpr int kRows;                                         // of one product, divides kTileRows
//   static constexpr int kRun;                                          // 2, 4 or 8: so many consecutive d lie
//                                                                       // together in both layouts
//   static int64_t key_index(int key, int d, int dim);                  // element of a panel [8 keys, dim]
//   static int64_t query_index(int row, int d);                         // element of [kRows, dim]
//   struct Session { explicit Session(int dim); };                      // lives around the products of one dim in a
//                                                                       // thread, one at a time
//   static void products(const int8_t* q, const int8_t* panel, int dim, float* out);  // out: [8 keys, kRows]
//   static void peaks(const int8_t* q, const int8_t* panel, int dim, float* out);     // out: [kRows], best of 8
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/top_indices.h"
#include "kernels/cpu/flash.h"
#include "kernels/cpu/peak_keys.h"
#include "kernels/cpu/peak_layout.h"
#include "kernels/cpu/peak_math.h"
#include "kernels/cpu/profile.h"
#include "kernels/cpu/wide.h"

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
      if (tile < layout.tiles && !care.latest) {
        prepare_rows(layout, h, tile);
      } else if (tile == layout.tiles && care.probe) {
        prepare_probe(layout, h);
      }
    }
  }

  static void choose(const PeakScoreParams& params, void* scratch, WorkQueue& queue, Worker worker) {
    const PeakLayout layout(params, scratch, worker.count);
    for (int64_t h = queue.take(); h < params.rows.kv_heads; h = queue.take()) {
      const HeadCare& care = params.care[h];
      layout.rows[h] = care.latest ? 0 : layout.num_rows();
      if (care.latest || !asks_some(layout, care)) continue;
      layout.rows[h] = care.rows;
      choose_rows(layout, h);
    }
  }

  static void score(const PeakScoreParams& params, void* scratch, WorkQueue& queue, Worker worker) {
    const PeakLayout layout(params, scratch, worker.count);
    const int64_t heads = params.rows.kv_heads;
    float* peaks = layout.peaks + worker.index * layout.visible * kTileRows;
    for (int64_t piece = queue.take(); piece < heads * (layout.tiles + 1); piece = queue.take()) {
      const int64_t h = piece % heads;
      const int64_t tile = piece / heads;
      const HeadCare& care = params.care[h];
      if (tile < layout.tiles && tile * kTileRows < layout.rows[h]) {
        const PeakTiles& from = asks_some(layout, care) ? layout.chosen : layout.all;
        score_tile(layout, h, layout.at(from, h * layout.tiles + tile), peaks,
                   layout.partial + (h * layout.tiles + tile) * layout.visible);
      } else if (tile == layout.tiles && care.probe) {
        const PeakTiles sample = layout.at(layout.probe, h);
        score_tile(layout, h, sample, peaks, nullptr);
        measure(layout, sample, peaks, params.probes + 2 * h);
      }
    }
  }

  static void merge(const PeakScoreParams& params, void* scratch, Worker worker) {
    const PeakLayout layout(params, scratch, worker.count);
    const Range share = even_share(layout.visible, worker);
    for (int32_t h = 0; h < params.rows.kv_heads; ++h) {
      float* scores = params.scores + params.rows.offset(h, params.segment);
      if (params.care[h].latest) {
        for (int64_t j = share.begin; j < share.end; ++j)
          scores[j] = static_cast<float>(j == 0 ? layout.visible : j) - static_cast<float>(layout.visible);
        continue;
      }
      std::fill(scores + share.begin, scores + share.end, kNoScore);
      for (int64_t tile = 0; tile * kTileRows < layout.rows[h]; ++tile) {
        const float* best = layout.partial + (h * layout.tiles + tile) * layout.visible;
        for (int64_t j = share.begin; j < share.end; ++j) scores[j] = best[j] > scores[j] ? best[j] : scores[j];
      }
      constexpr float kLn2 = 0.69314718056f;
      for (int64_t j = share.begin; j < share.end; ++j) scores[j] *= kLn2;
    }
  }

 private:
  static bool asks_some(const PeakLayout& layout, const HeadCare& care) {
    return care.rows > 0 && care.rows < layout.num_rows();
  }

  // --- rows -----------------------------------------------------------------------------------------------------

  static void place_query(const float* values, int dim, int row, int8_t* tile, float& scale) {
    int8_t small[2 * kMostDim];
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

  static void prepare_rows(const PeakLayout& layout, int64_t h, int64_t tile) {
    const HeadCare& care = layout.params.care[h];
    const PeakTiles to = layout.at(layout.all, h * layout.tiles + tile);
    for (int row = 0; row < kTileRows; ++row)
      to.token[row] = std::min(layout.tokens.begin + tile * kTileRows + row, layout.tokens.end - 1);
    std::vector<float> weights(static_cast<size_t>(kTileRows * layout.group), 1.0f / static_cast<float>(layout.group));
    if (care.homeless) weigh_heads(layout, h, to, weights);
    place_rows(layout, h, weights.data(), to);
    fold_own(layout, h, to);
    if (asks_some(layout, care))
      want(layout, h, weights.data(), to, layout.wanting + (h * layout.tiles + tile) * kTileRows);
  }

  // Softmax over the heads of -(what the head finds at home): who finds least asks. `to` serves as working memory.
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

  static void prepare_probe(const PeakLayout& layout, int64_t h) {
    const PeakTiles to = layout.at(layout.probe, h);
    // Evenly over the rows, the first half a step inside.
    for (int row = 0; row < kTileRows; ++row)
      to.token[row] = layout.tokens.begin + (2 * row + 1) * layout.num_rows() / (2 * kTileRows);
    const std::vector<float> weights(static_cast<size_t>(kTileRows * layout.group),
                                     1.0f / static_cast<float>(layout.group));
    place_rows(layout, h, weights.data(), to);
    fold_own(layout, h, to);
  }

  // The keys of the segment itself, up to each row's own.
  static void fold_own(const PeakLayout& layout, int64_t h, const PeakTiles& tile) {
    const PeakScoreParams& params = layout.params;
    const auto dim = static_cast<int>(layout.dim);
    std::fill_n(tile.max, kTileRows, kNoScore);
    std::fill_n(tile.sum, kTileRows, 0.0f);
    const int64_t own = layout.own_begin();
    const int64_t last = params.first_position + tile.token[kTileRows - 1];
    float raw[kPanelKeys * Isa::kRows];
    float logits[kPanelKeys * kTileRows];
    [[maybe_unused]] const typename Isa::Session session(dim);
    for (int64_t panel = own / kPanelKeys; panel * kPanelKeys <= last; ++panel) {
      const int64_t at = h * params.keys.capacity + panel;
      for (int r = 0; r < kTileRows; r += Isa::kRows) {
        Isa::products(tile.q + r * dim, params.keys.keys + at * kPanelKeys * dim, dim, raw);
        for (int key = 0; key < kPanelKeys; ++key) {
          const int64_t slot = panel * kPanelKeys + key;
          for (int row = 0; row < Isa::kRows; ++row) {
            const bool sees = slot >= own && slot <= params.first_position + tile.token[r + row];
            const float x = raw[key * Isa::kRows + row] * (tile.scale[r + row] * params.keys.key_scales[at]);
            logits[key * kTileRows + r + row] = sees ? x : kNoScore;
          }
        }
      }
      fold(logits, kPanelKeys, tile.max, tile.sum);
    }
  }

  static void want(const PeakLayout& layout, int64_t h, const float* weights, const PeakTiles& tile, float* wanting) {
    const auto dim = static_cast<int>(layout.dim);
    // Both signs of a query side by side: its product with a super-block's extremes bounds that with any of its keys.
    std::vector<int8_t> split(static_cast<size_t>(kTileRows * 2 * dim));
    float scale[kTileRows];
    float query[2 * kMostDim];
    for (int row = 0; row < kTileRows; ++row) {
      mix_query(layout, h, tile.token[row], weights + row * layout.group, query);
      for (int d = 0; d < dim; ++d) query[dim + d] = std::min(query[d], 0.0f);
      for (int d = 0; d < dim; ++d) query[d] = std::max(query[d], 0.0f);
      place_query(query, 2 * dim, row, split.data(), scale[row]);
    }
    float bound[kTileRows];
    bound_rows(layout, h, split.data(), scale, bound);
    float first[kTileRows];
    [[maybe_unused]] const typename Isa::Session session(dim);
    block_peaks(layout.params, h, 0, tile, first);
    for (int row = 0; row < kTileRows; ++row) {
      const float own = tile.max[row] + std::log2(tile.sum[row]);
      const float high = std::max(own, first[row]);
      wanting[row] = bound[row] - (high + std::log2(std::exp2(own - high) + std::exp2(first[row] - high)));
    }
  }

  // The largest bound of a super-block, of queries split [kTileRows, 2 * dim].
  static void bound_rows(const PeakLayout& layout, int64_t h, const int8_t* split, const float* scale, float* bound) {
    const KeyPanels& keys = layout.params.keys;
    const auto dim = static_cast<int>(2 * layout.dim);
    float raw[kPanelKeys * Isa::kRows];
    std::fill_n(bound, kTileRows, kNoScore);
    [[maybe_unused]] const typename Isa::Session session(dim);
    const int64_t supers = layout.visible / keys.super_blocks;
    for (int64_t panel = 0; panel * kPanelKeys < supers; ++panel) {
      const int64_t at = h * keys.bound_capacity + panel;
      const int8_t* extremes = keys.bounds + at * kPanelKeys * dim;
      // The last panel may hold super-blocks of the segment itself.
      const int64_t seen = std::min<int64_t>(kPanelKeys, supers - panel * kPanelKeys);
      for (int r = 0; r < kTileRows; r += Isa::kRows) {
        if (seen == kPanelKeys) {
          Isa::peaks(split + r * dim, extremes, dim, raw);
        } else {
          Isa::products(split + r * dim, extremes, dim, raw);
        }
        for (int64_t key = 0; key < (seen == kPanelKeys ? 1 : seen); ++key)
          for (int row = 0; row < Isa::kRows; ++row)
            bound[r + row] =
                std::max(bound[r + row], raw[key * Isa::kRows + row] * scale[r + row] * keys.bound_scales[at]);
      }
    }
  }

  static void choose_rows(const PeakLayout& layout, int64_t h) {
    const PeakScoreParams& params = layout.params;
    const float* wanting = layout.wanting + h * layout.tiles * kTileRows;
    const int64_t count = layout.num_rows();
    if (params.wanting != nullptr) {
      constexpr float kLn2 = 0.69314718056f;
      for (int64_t row = 0; row < count; ++row) params.wanting[h * count + row] = wanting[row] * kLn2;
    }
    std::vector<uint64_t> scratch;
    std::vector<int32_t> rows;
    append_top_indices({wanting, static_cast<size_t>(count)}, layout.rows[h], scratch, rows);
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

  // --- scores ---------------------------------------------------------------------------------------------------

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
      for (int r = 0; r < kTileRows; r += 4) {
        const Four x = load(raw + r) * (load(tile.scale + r) * scale);
        store(out + r, p > 0 ? larger(x, load(out + r)) : x);
      }
    }
  }

  // Peaks [visible, kTileRows] of one tile; tile.max becomes log2 Z. best (may be null): [visible].
  static void score_tile(const PeakLayout& layout, int64_t h, const PeakTiles& tile, float* peaks, float* best) {
    constexpr int64_t kStrip = 64;
    [[maybe_unused]] const typename Isa::Session session(static_cast<int>(layout.dim));
    for (int64_t strip = 0; strip < layout.visible; strip += kStrip) {
      const int64_t end = std::min(strip + kStrip, layout.visible);
      for (int64_t j = strip; j < end; ++j) block_peaks(layout.params, h, j, tile, peaks + j * kTileRows);
      fold(peaks + strip * kTileRows, end - strip, tile.max, tile.sum);
    }
    for (int r = 0; r < kTileRows; ++r) tile.max[r] += std::log2(tile.sum[r]);
    for (int64_t j = 0; best != nullptr && j < layout.visible; ++j)
      best[j] = largest_gap(peaks + j * kTileRows, tile.max);
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
