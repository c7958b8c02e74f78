// BlockMap: a picture of the blocks that a kv_head chose, segments down and blocks across, small enough for a page.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ei::report {

// `segments` and `blocks` are drawn as `rows` and `cols`, several to a cell where they are many.
struct MapShape {
  int64_t segments = 0;
  int64_t blocks = 0;
  int64_t rows = 0;
  int64_t cols = 0;
};
// So that `maps` of them make a few megabytes at most.
MapShape choose_map_shape(int64_t segments, int64_t blocks, int64_t maps);

class BlockMap {
 public:
  explicit BlockMap(MapShape shape);

  void add(int64_t segment, std::span<const int32_t> blocks);
  // [rows, cols]: 0 where no block was chosen, 15 where all were, and between them the share.
  std::vector<uint8_t> levels() const;

 private:
  MapShape shape_;
  std::vector<int64_t> chosen_;  // [rows, cols]
};

}  // namespace ei::report
