// What a sparse prefill decided: which blocks of earlier keys every segment of queries reads, per kv_head.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ei {

// The division of a prompt: segments of `segment` query rows, blocks of `block` key rows (block divides segment).
struct SegmentGrid {
  int32_t segment = 512;
  int32_t block = 8;
  constexpr int32_t blocks_per_segment() const { return segment / block; }
};

// Ragged lists in CSR form. List (kv_head, i) belongs to segment first_segment + i and holds ascending block indices
// j (slots [j*block, (j+1)*block)), all strictly before the segment; the segment's own keys are always read, causally.
// A segment with dense[i] != 0 reads everything before it instead.
struct BlockPlan {
  SegmentGrid grid;
  int32_t kv_heads = 0;
  int32_t first_segment = 0;
  int32_t num_segments = 0;
  std::vector<uint8_t> dense;    // [num_segments]
  std::vector<int64_t> offsets;  // [kv_heads * num_segments + 1]
  std::vector<int32_t> blocks;   // [offsets.back()]

  // The list of segment first_segment + i.
  size_t list(int32_t kv_head, int32_t i) const { return static_cast<size_t>(kv_head * num_segments + i); }
  int64_t count(size_t list) const { return offsets[list + 1] - offsets[list]; }
  std::span<int32_t> blocks_of(size_t list) {
    return {blocks.data() + offsets[list], static_cast<size_t>(count(list))};
  }
};

// Slots that survive a compression of one kv_head, ascending.
using KeepList = std::vector<int32_t>;

}  // namespace ei
