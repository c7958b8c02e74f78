// Where the steps of a peak score (row_peaks.h) keep their tiles and results.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention/cpu/flash.h"
#include "kernels/block_scores/block_scores.h"
#include "kernels/block_scores/cpu/peak_math.h"

namespace ei::kernels {

// Tiles of queries of one kv_head.
struct PeakTiles {
  int8_t* q;       // [tiles, kTileRows, dim], in the ISA's order
  float* scale;    // [tiles, kTileRows], to logits of base 2
  float* max;      // [tiles, kTileRows], the normaliser over the own segment
  float* sum;      // [tiles, kTileRows]
  int64_t* token;  // [tiles, kTileRows], row of the call; rows behind the last repeat it
};

// Some blocks, ascending; without a list the first `count`.
struct PeakBlocks {
  const int32_t* list;
  int64_t count;
  int64_t operator[](int64_t i) const { return list != nullptr ? list[i] : i; }
};

// Where everything lies.
struct PeakLayout {
  const PeakScoreParams& params;
  Range tokens;  // rows of the segment that are here
  int64_t dim;
  int64_t group;
  int64_t visible;      // blocks
  int64_t supers;       // whole super-blocks among them
  int64_t most_rows;    // of a kv_head that rank
  int64_t tiles;        // of one kv_head, for so many
  PeakTiles all;        // [kv_heads, tiles]
  PeakTiles chosen;     // [kv_heads, tiles]
  PeakTiles sample;     // [kv_heads, 1]
  int64_t* rows;        // [kv_heads], how many rate
  float* super_bounds;  // [kv_heads, tiles, supers]
  int64_t* candidates;  // [kv_heads], how many blocks are scored
  int32_t* blocks;      // [kv_heads, visible], which, where not all are
  float* partial;       // [kv_heads, tiles, visible], of candidates
  float* peaks;         // [workers, visible, kTileRows]
  size_t bytes;

  // Not inline: files for different instructions include this, and only one copy of a function is linked.
  PeakLayout(const PeakScoreParams& p, void* scratch, int workers);

  int64_t num_rows() const { return tokens.end - tokens.begin; }
  // A row is a query of a token; the queries of a token stand side by side.
  int64_t queries_of(int64_t h) const { return num_queries(params.ranking_of(h).queries, group); }
  int64_t rows_of(int64_t h) const { return num_rows() * queries_of(h); }
  int64_t tiles_of(int64_t h) const { return (rows_of(h) + kTileRows - 1) / kTileRows; }
  bool samples_rows(int64_t h) const { return params.ranking_of(h).rows > 0 && params.ranking_of(h).rows < num_rows(); }
  bool rates_candidates(int64_t h) const {
    return supers > 0 && params.ranking_of(h).candidates > 0 && params.ranking_of(h).candidates < visible;
  }
  PeakBlocks blocks_of(int64_t h) const {
    return {candidates[h] < visible ? blocks + h * visible : nullptr, candidates[h]};
  }
  int64_t own_begin() const { return int64_t{params.rows.first_segment + params.segment} * params.rows.grid.segment; }
  // The tiles of the rows that rate, once they are chosen.
  int64_t rating_tiles(int64_t h) const { return (rows[h] + kTileRows - 1) / kTileRows; }
  PeakTiles rating(int64_t h, int64_t tile) const { return at(samples_rows(h) ? chosen : all, h * tiles + tile); }
  PeakTiles at(const PeakTiles& tiles_of_all, int64_t index) const {
    const int64_t row = index * kTileRows;
    return {tiles_of_all.q + row * dim, tiles_of_all.scale + row, tiles_of_all.max + row, tiles_of_all.sum + row,
            tiles_of_all.token + row};
  }
};

}  // namespace ei::kernels
