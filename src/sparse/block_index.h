// BlockIndex: the representatives of key blocks (componentwise extremes), kept beside the KV store as it grows. Only
// layers that are planned have one. Slots are positions: the store must not be compacted.
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
  int32_t block = 8;
  std::vector<uint8_t> planned;  // [layers]
};

class BlockIndex {
 public:
  BlockIndex(const Backend& backend, BlockIndexShape shape);

  // Room for the whole blocks of `tokens` tokens. Nothing recorded may be pending.
  Status reserve(int64_t tokens);
  // Records the extremes of the blocks that `tokens` tokens complete and that are not here yet.
  void update(Stream& stream, int layer, const KvView& kv, int64_t tokens);
  kernels::BlockExtremes view(int layer) const;
  // Forgets what lies at positions >= `tokens`.
  void truncate(int64_t tokens);

  int64_t bytes() const;
  static int64_t bytes_for(const BlockIndexShape& shape, int64_t tokens);

 private:
  struct Layer {
    Buffer max_keys;
    Buffer min_keys;
    int64_t blocks = 0;  // whose extremes are here, or recorded
  };
  int64_t row_bytes() const;

  const Backend* backend_;
  BlockIndexShape shape_;
  int64_t capacity_ = 0;  // blocks
  std::vector<Layer> layers_;
};

}  // namespace ei::sparse
