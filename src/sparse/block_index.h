// BlockIndex: what the planner knows of earlier keys, beside the KV store as it grows: per planned layer the extremes
// of blocks, where a method reads them, and what the backend keeps to rate blocks by (KeyIndex), of which a part is of
// one layer at a time, made anew for every chunk. Slots are positions: the store must not be compacted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"

namespace ei::sparse {

struct BlockIndexShape {
  kernels::KeyIndexShape keys;
  bool extremes = false;         // of blocks, for mid-range scores
  bool rated = false;            // blocks are rated by peaks
  std::vector<uint8_t> planned;  // [layers]
};

class BlockIndex {
 public:
  BlockIndex(const Backend& backend, BlockIndexShape shape);

  // Room for the whole blocks of `tokens` tokens. Nothing recorded may be pending.
  Status reserve(int64_t tokens);
  // `have`, or up to twice as much where that makes room for what is of one layer at a time.
  // Memory of its own that this makes needless goes back.
  int64_t spare_for(int64_t have);
  // What is of one layer at a time goes into `spare` where it fits, otherwise into memory of its own.
  Status begin_chunk(std::span<std::byte> spare);
  // Records what `tokens` tokens add to the extremes.
  void update(Stream& stream, int layer, const KvView& kv, int64_t tokens);
  // Records what is missing of this layer to rate blocks by. It is there until another layer's.
  kernels::KeyIndex pack(Stream& stream, int layer, const KvView& kv, int64_t tokens);
  kernels::BlockExtremes view(int layer) const;
  // The prompt has been read: what was of one layer at a time goes back to the system.
  void end_prompt();
  // Everything goes; the next update begins with the first block.
  void drop();
  int64_t held_bytes() const;
  // Forgets what lies at positions >= `tokens`.
  void truncate(int64_t tokens);

  // Memory for a prompt that ends at `tokens` and of which so many segments are rated together, where so much is spare.
  int64_t bytes_for(int64_t tokens, int64_t segments, int64_t spare) const;

 private:
  struct Layer {
    Buffer max_keys;
    Buffer min_keys;
    int64_t blocks = 0;  // whose extremes are here, or recorded
    Buffer kept;
    int64_t supers = 0;  // super-blocks with bounds, in `kept`
  };
  int64_t row_bytes() const;
  int64_t spare_at(int64_t tokens, int64_t have) const;
  int64_t super_keys() const { return int64_t{kernels::blocks_per_super(shape_.keys.grid)} * shape_.keys.grid.block; }
  int64_t num_planned() const;
  // For `tokens` tokens.
  int64_t extremes_bytes(int64_t tokens) const;
  kernels::KeyIndexBytes rated_bytes(int64_t tokens, int64_t segments = 1) const;
  Status grow(Buffer& buffer, int64_t bytes, int64_t held) const;

  const Backend* backend_;
  BlockIndexShape shape_;
  int64_t capacity_ = 0;     // tokens
  Buffer own_passing_;       // what is of one layer at a time, unless it lies in spare memory
  void* passing_ = nullptr;  // of `capacity_` tokens, wherever it lies
  std::vector<Layer> layers_;
};

}  // namespace ei::sparse
