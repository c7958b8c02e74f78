// BlockIndex: what the planner knows of earlier keys, kept beside the KV store as it grows: the extremes of blocks, and
// while a prompt is read, keys of 8 bits. Only layers that are planned have one. Slots are positions: the store must
// not be compacted.
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
  bool panels = false;           // keys of 8 bits too
  std::vector<uint8_t> planned;  // [layers]
};

class BlockIndex {
 public:
  BlockIndex(const Backend& backend, BlockIndexShape shape);

  // Room for the whole blocks of `tokens` tokens. Nothing recorded may be pending.
  Status reserve(int64_t tokens);
  // Records what `tokens` tokens add.
  void update(Stream& stream, int layer, const KvView& kv, int64_t tokens);
  kernels::BlockExtremes view(int layer) const;
  kernels::KeyPanels panels(int layer) const;
  // Gives the memory of the keys of 8 bits back; the next reserve() begins them anew.
  void drop_panels();
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
    Buffer panels;
    int64_t packed = 0;  // keys of 8 bits, whole panels
    int64_t supers = 0;  // super-blocks with bounds
  };
  // Panels for `tokens` tokens; pointers are null when `memory` is, and `bytes` counts.
  kernels::KeyPanels lay_out(std::byte* memory, int64_t tokens, int64_t& bytes) const;
  Status reserve_panels(int64_t tokens);
  void update_panels(Stream& stream, int layer, const KvView& kv, int64_t tokens);
  int64_t row_bytes() const;
  int64_t super_keys() const { return int64_t{super_blocks_} * shape_.grid.block; }

  const Backend* backend_;
  BlockIndexShape shape_;
  int32_t super_blocks_ = 1;
  int64_t capacity_ = 0;        // blocks
  int64_t panel_capacity_ = 0;  // tokens
  std::vector<Layer> layers_;
};

}  // namespace ei::sparse
