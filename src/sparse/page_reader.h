// PageReader: while tokens are generated over a whole cache, chooses for each of them the pages that it reads (Quest,
// policy/kv/quest.h). Extremes of the keys of whole pages are kept beside the cache; the upper bound of a page is the
// largest product that a key between them could have with the query. Nothing waits: what is chosen is filled in while
// the stream runs.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "plan/block_plan.h"
#include "policy/kv/options.h"
#include "sparse/block_index.h"

namespace ei::sparse {

struct PageShape {
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  DType key_type = DType::kF32;
  std::vector<uint8_t> global;  // [layers]: attends to the whole context; others have a window and stay as they are
};

class PageReader {
 public:
  // options.read is not 0.
  PageReader(const Backend& backend, const policy::KvOptions& options, PageShape shape);

  // The token at `position` comes next; everything before it is in the cache. True: it reads pages in some layer.
  Result<bool> begin_token(int64_t position);
  // q: its rotated query [1, heads * head_dim]. Null: it reads everything in this layer.
  Result<const BlockPlan*> record(Stream& stream, int layer, Matrix q, const KvView& kv);
  // What was recorded has run, or failed.
  void finish_token();
  void undo_token() { index_.truncate(indexed_); }
  // Forgets everything from `position` on.
  void truncate(int64_t position);
  int64_t held_bytes() const { return index_.held_bytes(); }  // beside the KV cache

 private:
  policy::KvOptions options_;
  PageShape shape_;
  BlockIndex index_;
  std::vector<BlockPlan> plans_;  // [layers]
  int64_t position_ = 0;
  int64_t indexed_ = 0;  // tokens whose pages' extremes are there
};

}  // namespace ei::sparse
