// BlockIndex: what the planner knows of earlier keys, beside the KV store as it grows: per planned layer the extremes
// of blocks, where a method reads them, and the upper bounds of super-blocks; and keys of 8 bits of one layer at a
// time, made anew for every chunk. Slots are positions: the store must not be compacted.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"

namespace ei::sparse {

struct BlockIndexShape {
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  DType key_type = DType::kF32;
  SegmentGrid grid;
  bool extremes = false;         // of blocks, for mid-range scores
  bool panels = false;           // keys of 8 bits and bounds, for peak scores
  std::vector<uint8_t> planned;  // [layers]
};

class BlockIndex {
 public:
  BlockIndex(const Backend& backend, BlockIndexShape shape);

  // Room for the whole blocks of `tokens` tokens. Nothing recorded may be pending.
  Status reserve(int64_t tokens);
  // Records what `tokens` tokens add to the extremes.
  void update(Stream& stream, int layer, const KvView& kv, int64_t tokens);
  // Records the keys of 8 bits of this layer, and the bounds that are missing. They are there until another layer's.
  kernels::KeyPanels pack(Stream& stream, int layer, const KvView& kv, int64_t tokens);
  kernels::BlockExtremes view(int layer) const;
  // The prompt has been read: the keys of 8 bits go back to the system.
  void end_prompt();
  // Everything goes; the next update begins with the first block.
  void drop();
  int64_t held_bytes() const;
  // Forgets what lies at positions >= `tokens`.
  void truncate(int64_t tokens);

  // Memory for a prompt that ends at `tokens`.
  int64_t bytes_for(int64_t tokens) const;

 private:
  struct Layer {
    Buffer max_keys;
    Buffer min_keys;
    int64_t blocks = 0;  // whose extremes are here, or recorded
    Buffer bounds;
    int64_t supers = 0;  // super-blocks with bounds
  };
  int64_t row_bytes() const;
  int64_t super_keys() const { return int64_t{super_blocks_} * shape_.grid.block; }
  int64_t num_planned() const;
  // Bytes per layer, and of the panels that all share, for `tokens` tokens.
  int64_t extremes_bytes(int64_t tokens) const;
  int64_t bounds_bytes(int64_t tokens) const;
  int64_t panels_bytes(int64_t tokens) const;
  Status grow(Buffer& buffer, int64_t bytes, int64_t held) const;

  const Backend* backend_;
  BlockIndexShape shape_;
  int32_t super_blocks_ = 1;
  int64_t capacity_ = 0;        // tokens, of extremes and bounds
  int64_t panel_capacity_ = 0;  // tokens
  Buffer panels_;
  std::vector<Layer> layers_;
};

}  // namespace ei::sparse
