#include "report/block_map.h"

#include <algorithm>

#include "base/check.h"

namespace ei::report {

namespace {
constexpr int64_t kMostRows = 256;
constexpr int64_t kMostCols = 512;
constexpr int64_t kFewestCols = 64;
constexpr int64_t kMostCells = int64_t{1} << 23;  // of all maps
constexpr int64_t kFullLevel = 15;

// Things [0, count) in `cells` cells: where cell `cell` begins.
int64_t cell_begin(int64_t cell, int64_t count, int64_t cells) { return (cell * count + cells - 1) / cells; }
}  // namespace

MapShape choose_map_shape(int64_t segments, int64_t blocks, int64_t maps) {
  MapShape shape{.segments = segments,
                 .blocks = blocks,
                 .rows = std::min(segments, kMostRows),
                 .cols = std::min(blocks, kMostCols)};
  while (maps * shape.rows * shape.cols > kMostCells && shape.cols > kFewestCols) shape.cols = (shape.cols + 1) / 2;
  return shape;
}

BlockMap::BlockMap(MapShape shape) : shape_(shape), chosen_(static_cast<size_t>(shape.rows * shape.cols)) {}

void BlockMap::add(int64_t segment, std::span<const int32_t> blocks) {
  EI_CHECK(segment >= 0 && segment < shape_.segments);
  const int64_t row = segment * shape_.rows / shape_.segments;
  for (const int32_t block : blocks) {
    EI_CHECK(block >= 0 && block < shape_.blocks);
    ++chosen_[static_cast<size_t>(row * shape_.cols + block * shape_.cols / shape_.blocks)];
  }
}

std::vector<uint8_t> BlockMap::levels() const {
  std::vector<uint8_t> levels;
  levels.reserve(chosen_.size());
  for (int64_t row = 0; row < shape_.rows; ++row) {
    const int64_t segments =
        cell_begin(row + 1, shape_.segments, shape_.rows) - cell_begin(row, shape_.segments, shape_.rows);
    for (int64_t col = 0; col < shape_.cols; ++col) {
      const int64_t blocks =
          cell_begin(col + 1, shape_.blocks, shape_.cols) - cell_begin(col, shape_.blocks, shape_.cols);
      const int64_t chosen = chosen_[static_cast<size_t>(row * shape_.cols + col)];
      // A single block shows, and only a whole cell is full.
      const int64_t level = chosen == 0 ? 0 : 1 + (kFullLevel - 1) * chosen / (segments * blocks);
      levels.push_back(static_cast<uint8_t>(level));
    }
  }
  return levels;
}

}  // namespace ei::report
