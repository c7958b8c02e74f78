// The driver of RowScore::kGroupPeak, shared by all ISA variants (see PeakVariant in profile.h).
//
// Keys are packed in panels of eight, queries (one per token, the mean of the group's) in tiles; both are rounded to 8
// bits where the ISA multiplies those. A worker takes some tiles of a segment and walks all panels: the best product of
// each block goes to memory, the normaliser is folded on the way. Then, with Z known, each block keeps the best of
// peak - Z over the rows. What a row finds depends on nothing but the row and the keys.
//
// An ISA is a struct of static members, in an unnamed namespace as in flash.h:
//   using Element = int8_t or float;
//   static constexpr int kRows;                                          // of one product, divides kTileRows
//   static int64_t key_index(int key, int d, int dim);                   // element of a panel [8 keys, dim]
//   static int64_t query_index(int row, int d, int dim);                 // element of [kRows, dim]
//   static void products(const Element* q, const Element* panel, int dim, float* out);   // out: [8 keys, kRows]
//   static void peaks(const Element* q, const Element* panel, int dim, float* out);      // out: [kRows], best of 8
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>

#include "base/check.h"
#include "kernels/cpu/flash.h"
#include "kernels/cpu/profile.h"
#include "kernels/cpu/wide.h"

namespace ei::kernels {

inline constexpr int kPanelKeys = 8;
inline constexpr int kTileRows = 32;
inline constexpr int kTilesPerPiece = 4;

// Where everything lies: panels and tiles of every kv_head, one partial result per piece, one worker's peaks.
template <typename Isa>
struct PeakLayout {
  using Element = typename Isa::Element;

  const RowScoreParams* params;
  int64_t dim;
  int64_t panels;  // of one kv_head, up to the last key
  int64_t most;    // blocks that the last segment sees
  int64_t tiles_per_segment;
  int64_t pieces_per_segment;
  Element* keys;       // [kv_heads, panels, 8, dim]
  float* key_scale;    // [kv_heads, panels]
  Element* queries;    // [kv_heads, num_segments, tiles, kTileRows, dim]
  float* query_scale;  // [kv_heads, num_segments, tiles, kTileRows], to logits of base 2
  float* partial;      // [kv_heads, num_segments, pieces, most]
  float* peaks;        // [workers, most, kTileRows]
  size_t bytes;

  PeakLayout(const RowScoreParams& p, void* scratch, int workers) : params(&p) {
    const int64_t heads = p.rows.kv_heads;
    dim = p.kv.head_dim;
    panels = (p.first_position + p.tokens + kPanelKeys - 1) / kPanelKeys;
    most = p.rows.num_segments > 0 ? p.rows.visible(p.rows.num_segments - 1) : 0;
    const int64_t rows = std::min<int64_t>(p.rows.grid.segment, p.tokens);
    tiles_per_segment = (rows + kTileRows - 1) / kTileRows;
    pieces_per_segment = (tiles_per_segment + kTilesPerPiece - 1) / kTilesPerPiece;
    const int64_t segments = heads * p.rows.num_segments;
    Carver carver(scratch);
    keys = carver.take<Element>(heads * panels * kPanelKeys * dim);
    key_scale = carver.take<float>(heads * panels);
    queries = carver.take<Element>(segments * tiles_per_segment * kTileRows * dim);
    query_scale = carver.take<float>(segments * tiles_per_segment * kTileRows);
    partial = carver.take<float>(segments * pieces_per_segment * most);
    peaks = carver.take<float>(int64_t{workers} * most * kTileRows);
    bytes = carver.used();
  }

  bool wanted(int64_t i) const { return params->wanted == nullptr || params->wanted[i] != 0; }
  // The rows of segment i that are here.
  Range tokens(int64_t i) const {
    const int64_t begin = (params->rows.first_segment + i) * params->rows.grid.segment - params->first_position;
    return {std::max<int64_t>(begin, 0), std::min(begin + params->rows.grid.segment, params->tokens)};
  }
  int64_t tile_of(int64_t head, int64_t i, int64_t tile) const {
    return (head * params->rows.num_segments + i) * tiles_per_segment + tile;
  }
};

template <typename Isa>
class RowPeaks {
 public:
  using Element = typename Isa::Element;
  static constexpr bool kEightBits = std::is_same_v<Element, int8_t>;

  static size_t scratch_bytes(const RowScoreParams& params, int workers) {
    return PeakLayout<Isa>(params, nullptr, workers).bytes;
  }

  static void pack(const RowScoreParams& params, void* scratch, Worker worker) {
    const PeakLayout<Isa> layout(params, scratch, worker.count);
    const int64_t heads = params.rows.kv_heads;
    for (int64_t h = 0; h < heads; ++h) {
      const Range share = even_share(layout.panels, worker);
      for (int64_t panel = share.begin; panel < share.end; ++panel) pack_panel(layout, h, panel);
    }
    const int64_t tiles = heads * params.rows.num_segments * layout.tiles_per_segment;
    const Range share = even_share(tiles, worker);
    for (int64_t tile = share.begin; tile < share.end; ++tile) pack_tile(layout, tile);
  }

  static void score(const RowScoreParams& params, void* scratch, WorkQueue& queue, Worker worker) {
    const PeakLayout<Isa> layout(params, scratch, worker.count);
    const int64_t heads = params.rows.kv_heads;
    const int64_t count = heads * params.rows.num_segments * layout.pieces_per_segment;
    float* peaks = layout.peaks + worker.index * layout.most * kTileRows;
    for (int64_t piece = queue.take(); piece < count; piece = queue.take()) {
      // Later segments see more: heaviest first.
      const int64_t i = params.rows.num_segments - 1 - piece / (heads * layout.pieces_per_segment);
      const int64_t h = piece % heads;
      const int64_t part = piece / heads % layout.pieces_per_segment;
      const Range tokens = layout.tokens(i);
      if (!layout.wanted(i) || part * kTilesPerPiece * kTileRows >= tokens.end - tokens.begin) continue;
      float* best = partial_of(layout, h, i, part);
      std::fill_n(best, params.rows.visible(static_cast<int32_t>(i)), kNoScore);
      for (int64_t tile = part * kTilesPerPiece; tile < (part + 1) * kTilesPerPiece; ++tile)
        if (tile * kTileRows < tokens.end - tokens.begin) score_tile(layout, h, i, tile, peaks, best);
    }
  }

  static void merge(const RowScoreParams& params, void* scratch, Worker worker) {
    const PeakLayout<Isa> layout(params, scratch, worker.count);
    for (int32_t h = 0; h < params.rows.kv_heads; ++h) {
      for (int32_t i = 0; i < params.rows.num_segments; ++i) {
        if (!layout.wanted(i)) continue;
        const Range tokens = layout.tokens(i);
        const Range share = even_share(params.rows.visible(i), worker);
        float* scores = params.scores + params.rows.offset(h, i);
        std::fill(scores + share.begin, scores + share.end, kNoScore);
        for (int64_t part = 0; part * kTilesPerPiece * kTileRows < tokens.end - tokens.begin; ++part) {
          const float* best = partial_of(layout, h, i, part);
          for (int64_t j = share.begin; j < share.end; ++j) scores[j] = best[j] > scores[j] ? best[j] : scores[j];
        }
        constexpr float kLn2 = 0.69314718056f;
        for (int64_t j = share.begin; j < share.end; ++j) scores[j] *= kLn2;
      }
    }
  }

 private:
  static float* partial_of(const PeakLayout<Isa>& layout, int64_t h, int64_t i, int64_t part) {
    const int64_t segment = h * layout.params->rows.num_segments + i;
    return layout.partial + (segment * layout.pieces_per_segment + part) * layout.most;
  }

  // Rows of 8 bits share one scale: the largest element becomes 127. Gives what one unit is worth.
  static float quantise(const float* values, int64_t count, int8_t* to) {
    // Magnitudes order like the integers of their bits, and compilers vectorise a maximum of integers.
    int32_t bits = 0;
    for (int64_t k = 0; k < count; ++k) {
      int32_t magnitude;
      std::memcpy(&magnitude, values + k, sizeof magnitude);
      bits = std::max(bits, magnitude & 0x7fffffff);
    }
    float largest;
    std::memcpy(&largest, &bits, sizeof largest);
    const float inverse = largest > 0 ? 127.0f / largest : 0.0f;
    // Adding 1.5 * 2^23 leaves the rounded integer in the low bits: faster than a call to a rounding function.
    for (int64_t k = 0; k < count; ++k) {
      const float shifted = values[k] * inverse + 12582912.0f;
      int32_t rounded;
      std::memcpy(&rounded, &shifted, sizeof rounded);
      to[k] = static_cast<int8_t>(rounded);
    }
    return largest / 127.0f;
  }

  static void pack_panel(const PeakLayout<Isa>& layout, int64_t h, int64_t panel) {
    const KvView& kv = layout.params->kv;
    const KvHeadView& head = kv.heads[static_cast<size_t>(h)];
    const auto dim = static_cast<int>(layout.dim);
    const int64_t length = layout.params->first_position + layout.params->tokens;
    float rows[kPanelKeys * kMostDim];
    for (int key = 0; key < kPanelKeys; ++key) {
      const int64_t slot = panel * kPanelKeys + key;
      float* row = rows + key * dim;
      if (slot >= length) {
        std::fill_n(row, dim, 0.0f);
        continue;
      }
      const auto row_bytes = static_cast<size_t>(dim) * dtype_bytes(kv.key_type);
      const auto* page = static_cast<const std::byte*>(head.key_pages[slot / kv.page_slots]);
      load_row(page + static_cast<size_t>(slot % kv.page_slots) * row_bytes, kv.key_type, dim, row);
    }
    Element* to = layout.keys + (h * layout.panels + panel) * kPanelKeys * dim;
    float& scale = layout.key_scale[h * layout.panels + panel];
    place<kPanelKeys>(rows, dim, to, scale, [](int key, int d, int width) { return Isa::key_index(key, d, width); });
  }

  template <int kCount, typename Index>
  static void place(const float* rows, int dim, Element* to, float& scale, Index index) {
    if constexpr (kEightBits) {
      int8_t small[kCount * kMostDim];
      scale = quantise(rows, int64_t{kCount} * dim, small);
      // Layouts keep eight neighbours together.
      for (int row = 0; row < kCount; ++row)
        for (int d = 0; d < dim; d += 8) std::memcpy(to + index(row, d, dim), small + row * dim + d, 8);
    } else {
      scale = 1;
      for (int row = 0; row < kCount; ++row)
        for (int d = 0; d < dim; ++d) to[index(row, d, dim)] = rows[row * dim + d];
    }
  }

  // The group's mean queries of one tile. Rows behind the segment's last repeat it: they change no maximum.
  static void pack_tile(const PeakLayout<Isa>& layout, int64_t tile) {
    const RowScoreParams& params = *layout.params;
    const int64_t segment = tile / layout.tiles_per_segment;
    const int64_t i = segment % params.rows.num_segments;
    const int64_t h = segment / params.rows.num_segments;
    const int64_t first = tile % layout.tiles_per_segment * kTileRows;
    const Range tokens = layout.tokens(i);
    if (!layout.wanted(i) || first >= tokens.end - tokens.begin) return;
    const int64_t group = params.num_heads / params.rows.kv_heads;
    const auto dim = static_cast<int>(layout.dim);
    const float share = params.scale * static_cast<float>(kLog2e) / static_cast<float>(group);
    float mean[kMostDim];
    for (int row = 0; row < kTileRows; ++row) {
      const int64_t token = std::min(tokens.begin + first + row, tokens.end - 1);
      const float* q = params.q + token * params.q_stride + h * group * dim;
      for (int d = 0; d < dim; ++d) {
        float sum = 0;
        for (int64_t g = 0; g < group; ++g) sum += q[g * dim + d];
        mean[d] = sum * share;
      }
      Element* block = layout.queries + (tile * kTileRows + row / Isa::kRows * Isa::kRows) * dim;
      place<1>(mean, dim, block, layout.query_scale[tile * kTileRows + row],
               [row](int, int d, int width) { return Isa::query_index(row % Isa::kRows, d, width); });
    }
  }

  // Maximum and sum of exponentials of the rows of a tile so far.
  struct Normaliser {
    float max[kTileRows];
    float sum[kTileRows];
  };

  typedef float Four __attribute__((vector_size(16)));
  static Four load(const float* from) {
    Four v;
    std::memcpy(&v, from, sizeof v);
    return v;
  }
  static void store(float* to, const Four& v) { std::memcpy(to, &v, sizeof v); }
  static Four larger(const Four& a, const Four& b) { return a > b ? a : b; }

  // 2^x for x <= 0, relative error below 1e-3: more than a ranking needs.
  static Four exp2(Four x) {
    typedef int32_t Bits __attribute__((vector_size(16)));
    x = larger(x, Four{-126, -126, -126, -126});
    const Four shifted = x + 12582912.0f;
    const Four r = x - (shifted - 12582912.0f);
    const Four poly = ((0.0558f * r + 0.24022f) * r + 0.69314f) * r + 1.0f;
    return reinterpret_cast<Four>((reinterpret_cast<Bits>(shifted) << 23) + reinterpret_cast<Bits>(poly));
  }

  // Folds `count` rows of kTileRows logits into the normaliser.
  static void fold(const float* logits, int64_t count, Normaliser& z) {
    for (int r = 0; r < kTileRows; r += 16) {
      Four max[4];
      Four sum[4];
      for (int v = 0; v < 4; ++v) max[v] = load(z.max + r + 4 * v);
      for (int64_t j = 0; j < count; ++j)
        for (int v = 0; v < 4; ++v) max[v] = larger(max[v], load(logits + j * kTileRows + r + 4 * v));
      for (int v = 0; v < 4; ++v) sum[v] = load(z.sum + r + 4 * v) * exp2(load(z.max + r + 4 * v) - max[v]);
      for (int64_t j = 0; j < count; ++j)
        for (int v = 0; v < 4; ++v) sum[v] += exp2(load(logits + j * kTileRows + r + 4 * v) - max[v]);
      for (int v = 0; v < 4; ++v) {
        store(z.max + r + 4 * v, max[v]);
        store(z.sum + r + 4 * v, sum[v]);
      }
    }
  }

  static void score_tile(const PeakLayout<Isa>& layout, int64_t h, int64_t i, int64_t tile, float* peaks, float* best) {
    const RowScoreParams& params = *layout.params;
    const auto dim = static_cast<int>(layout.dim);
    const int64_t index = layout.tile_of(h, i, tile);
    const Element* q = layout.queries + index * kTileRows * dim;
    const float* q_scale = layout.query_scale + index * kTileRows;
    const Element* keys = layout.keys + h * layout.panels * kPanelKeys * dim;
    const float* key_scale = layout.key_scale + h * layout.panels;
    const int64_t visible = params.rows.visible(static_cast<int32_t>(i));
    const int64_t panels_per_block = params.rows.grid.block / kPanelKeys;
    Normaliser z;
    std::fill_n(z.max, kTileRows, kNoScore);
    std::fill_n(z.sum, kTileRows, 0.0f);
    fold_own(layout, h, i, tile, q, q_scale, z);
    constexpr int64_t kStrip = 64;
    for (int64_t strip = 0; strip < visible; strip += kStrip) {
      const int64_t end = std::min(strip + kStrip, visible);
      for (int64_t j = strip; j < end; ++j)
        block_peaks(q, q_scale, keys + j * panels_per_block * kPanelKeys * dim, key_scale + j * panels_per_block,
                    panels_per_block, dim, peaks + j * kTileRows);
      fold(peaks + strip * kTileRows, end - strip, z);
    }
    for (int r = 0; r < kTileRows; ++r) z.max[r] += std::log2(z.sum[r]);
    for (int64_t j = 0; j < visible; ++j) {
      const float* row = peaks + j * kTileRows;
      Four most[2] = {load(row) - load(z.max), load(row + 4) - load(z.max + 4)};
      for (int r = 8; r < kTileRows; r += 8) {
        most[0] = larger(most[0], load(row + r) - load(z.max + r));
        most[1] = larger(most[1], load(row + r + 4) - load(z.max + r + 4));
      }
      const Four all = larger(most[0], most[1]);
      const float high = std::max(std::max(all[0], all[1]), std::max(all[2], all[3]));
      best[j] = std::max(best[j], high);
    }
  }

  // The best product of every row with the keys of one block, in logits of base 2.
  static void block_peaks(const Element* q, const float* q_scale, const Element* panel, const float* key_scale,
                          int64_t count, int dim, float* out) {
    float raw[kTileRows];
    for (int64_t p = 0; p < count; ++p) {
      for (int r = 0; r < kTileRows; r += Isa::kRows)
        Isa::peaks(q + r * dim, panel + p * kPanelKeys * dim, dim, raw + r);
      for (int r = 0; r < kTileRows; r += 4) {
        const Four x = load(raw + r) * (load(q_scale + r) * key_scale[p]);
        store(out + r, p > 0 ? larger(x, load(out + r)) : x);
      }
    }
  }

  // The keys of the segment itself, up to each row's own.
  static void fold_own(const PeakLayout<Isa>& layout, int64_t h, int64_t i, int64_t tile, const Element* q,
                       const float* q_scale, Normaliser& z) {
    const RowScoreParams& params = *layout.params;
    const auto dim = static_cast<int>(layout.dim);
    const Range tokens = layout.tokens(i);
    const int64_t own = (params.rows.first_segment + i) * int64_t{params.rows.grid.segment};
    const int64_t first_row = params.first_position + tokens.begin + tile * kTileRows;
    const int64_t last_row = std::min(first_row + kTileRows - 1, params.first_position + tokens.end - 1);
    float raw[kPanelKeys * Isa::kRows];
    float logits[kPanelKeys * kTileRows];
    for (int64_t panel = own / kPanelKeys; panel * kPanelKeys <= last_row; ++panel) {
      const float key_scale = layout.key_scale[h * layout.panels + panel];
      for (int r = 0; r < kTileRows; r += Isa::kRows) {
        Isa::products(q + r * dim, layout.keys + (h * layout.panels + panel) * kPanelKeys * dim, dim, raw);
        for (int key = 0; key < kPanelKeys; ++key) {
          const int64_t slot = panel * kPanelKeys + key;
          for (int row = 0; row < Isa::kRows; ++row) {
            const bool sees = slot >= own && slot <= std::min(first_row + r + row, last_row);
            const float x = raw[key * Isa::kRows + row] * (q_scale[r + row] * key_scale);
            logits[key * kTileRows + r + row] = sees ? x : kNoScore;
          }
        }
      }
      fold(logits, kPanelKeys, z);
    }
  }

  static constexpr int kMostDim = 256;
};

template <typename Isa>
constexpr PeakVariant make_peak_variant(std::string_view name, bool (*usable)()) {
  using Peaks = RowPeaks<Isa>;
  return {.name = name,
          .usable = usable,
          .scratch_bytes = Peaks::scratch_bytes,
          .pack = Peaks::pack,
          .score = Peaks::score,
          .merge = Peaks::merge};
}

}  // namespace ei::kernels
