// kv::Store: the KV cache of one session. Every layer and every kv_head has its own slots, positions and length.
// All memory goes through the Backend; the store itself never looks into a page. A store belongs to one thread at a
// time; stores made by fork() share pages safely across threads. Work enqueued on a stream that reads or writes this
// store must be synchronized before fork(), compact(), truncate(), save() or the destructor.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "base/cancel.h"
#include "base/result.h"
#include "kv/head_slots.h"
#include "kv/page_pool.h"
#include "plan/block_plan.h"
#include "plan/kv_view.h"
#include "tensor/dtype.h"

namespace ei::kv {

struct StoreConfig {
  int layers = 0;
  int kv_heads = 0;
  int head_dim = 0;
  DType key_type = DType::kF32;
  DType value_type = DType::kF32;
  int page_slots = 128;
};

class Store {
 public:
  Store(const Backend& backend, const StoreConfig& config);
  Store(Store&&) = default;
  Store& operator=(Store&& other) noexcept;

  const StoreConfig& config() const { return config_; }

  // Room for `count` more tokens in every layer, so that appending them cannot fail. An error (kMemory) changes
  // nothing. The reservation ends when it is used up, with truncate(), and for a head that compact() shortens: reserve
  // again before the next chunk.
  Status reserve(int64_t count);
  // Bytes of the pages that reserve(count) would take.
  int64_t bytes_missing(int64_t count) const { return pages_missing(count) * page_bytes(); }
  // So many tokens will be reserved step by step: the memory taken for them ends with the last.
  void expect(int64_t count) { pool_->expect(pages_missing(count)); }
  // Extends `layer` by `count` reserved tokens and says where their rows go. Rows are undefined until written.
  KvAppend append(int layer, int64_t count);
  // Stays valid until the layer changes (reserve() changes every layer) or the store is moved from.
  KvView view(int layer) const;

  int64_t length(int layer, int kv_head) const;
  // Tokens fed so far. Within a chunk: those that every layer has.
  int32_t next_position() const;

  // Keeps only these slots of one head, ascending. Whole pages go back at once. Needs one spare page for a moment, and
  // one for each rewritten page that a fork shares; a kMemory error changes nothing, after a device error the head's
  // rows are undefined. Keeping everything does nothing.
  Status compact(int layer, int kv_head, const KeepList& keep);
  // Forgets everything at positions >= `position`, also what only some layers have got of an unfinished chunk.
  Status truncate(int32_t position);
  // A second store with the same contents. Pages are shared until one side writes to them.
  Result<Store> fork() const;

  // Bytes of the pages held, reserved ones included. A page shared with a fork counts in each store.
  int64_t bytes() const;
  // The most that bytes() has been, behind a reservation.
  int64_t bytes_peak() const { return std::max(bytes_peak_, bytes()); }
  // The bytes of one page, and every page held, by an address that no other page has while it is held.
  int64_t page_bytes() const { return static_cast<int64_t>(layout_.bytes); }
  template <typename Visit>
  void for_each_page(const Visit& visit) const {
    for (const Layer& layer : layers_)
      for (const HeadSlots& head : layer.heads)
        for (int64_t i = 0; i < head.num_pages(); ++i) visit(static_cast<const void*>(head.page(i).data()));
  }
  // What bytes() would be for next_position() tokens, had nothing been dropped.
  int64_t bytes_full() const;
  int64_t tokens_kept() const;                          // slots in use, over all layers and kv_heads
  int64_t tokens_total() const;                         // the same, had nothing been dropped
  double average_slots() const;                         // tokens_kept per kv_head
  int64_t evicted() const { return evicted_; }          // slots dropped by compact() so far
  int64_t compactions() const { return compactions_; }  // calls of compact() that dropped something
  // Does every head hold every position? Only then may the cache serve as an exact prefix. compact() makes it false;
  // only truncating to before the first dropped position makes it true again.
  bool exact() const;
  PagePool::Usage pool_usage() const { return pool_->usage(); }  // this store and its forks together

  // One file, written atomically and checksummed (store_file.cpp). `model_hash` must be the same to load it again.
  // Both end in kInterrupted, as if they had not been called, soon after `cancel` (may be null) was raised. `note`: any
  // bytes that travel with it. Rows are written as hosts see them (host_type). `wanted`: types to load such rows into.
  // `most`: of a cache that holds everything only so many leading tokens get memory; the whole file is checked.
  Status save(const std::string& path, uint64_t model_hash, const CancelToken* cancel = nullptr,
              std::string_view note = {}) const;
  static Result<Store> load(const std::string& path, uint64_t model_hash, const Backend& backend,
                            const CancelToken* cancel = nullptr, std::string* note = nullptr,
                            const StoreConfig* wanted = nullptr, int32_t most = std::numeric_limits<int32_t>::max());
  // The note of a file that save() wrote; of the rest only its description is read and checked.
  static Result<std::string> note(const std::string& path, uint64_t model_hash);

 private:
  struct Layer {
    std::vector<HeadSlots> heads;   // [kv_heads]
    std::vector<KvHeadView> views;  // [kv_heads], refreshed by every change
    int32_t next = 0;               // position of the next token
  };

  static void refresh(Layer& layer);
  int64_t pages_missing(int64_t count) const;
  Layer& layer_at(int layer);
  const Layer& layer_at(int layer) const;

  const Backend* backend_;
  StoreConfig config_;
  PageLayout layout_;
  std::shared_ptr<PagePool> pool_;  // before layers_: it outlives their pages
  std::vector<Layer> layers_;
  int64_t evicted_ = 0;
  int64_t compactions_ = 0;
  int64_t bytes_peak_ = 0;
};

}  // namespace ei::kv
