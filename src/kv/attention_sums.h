// AttentionSums: how much attention every slot of every compressed layer has got from all queries so far, prompt and
// answer, carried on from chunk to chunk and through compressions (kernels/window_scores/attention_sums.h).
//
// The latest queries are not in the sums yet: they wait in the observer, so that a rewind over them takes nothing back,
// and sixteen are added at a time, which takes as long as one. Sums are written beside those of the chunk before: a
// chunk that fails changes nothing.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "base/bytes.h"
#include "base/result.h"
#include "kv/observer.h"
#include "kv/store.h"

namespace ei::kv {

struct AttentionSumsShape {
  std::vector<uint8_t> taken = {};  // [layers]: which are added up; none: nobody wants sums
  int32_t heads = 0;
  int32_t kv_heads = 0;
  float attention_scale = 0;
};

class AttentionSums {
 public:
  static constexpr int64_t kWaiting = 64;  // queries, at most; a multiple of kTogether
  static constexpr int64_t kTogether = 16;

  AttentionSums(const Backend& backend, AttentionSumsShape shape);

  bool wanted() const { return wanted_; }
  // Were all queries in front of `position` watched?
  bool complete(int32_t position) const { return !wanted_ || since_ == 0 || (since_ < 0 && position == 0); }
  bool empty() const { return since_ < 0; }
  // The first position that a rewind may lead to, beside 0: queries in front of it have been added.
  int32_t counted() const { return counted_ < 0 ? 0 : counted_; }

  // Enqueues what a chunk of queries q [tokens, width], which begins at position `first`, makes necessary: call for
  // every layer, then advance(), or nothing when the chunk failed. `view`: with the chunk's keys.
  Status record(Stream& stream, int layer, const Observer& waiting, Matrix q, int32_t first, const KvView& view);
  void advance(int32_t first, int64_t tokens);
  // Adds all that wait.
  Status flush(Stream& stream, const Observer& waiting, const Store& store);

  // Of every head and slot of a layer, [heads, stride] on the host.
  Result<std::vector<float>> scores(int layer, int64_t stride) const;
  // The same [heads, slots], enqueued on a stream that measures slots, into its memory.
  void scores(Stream& stream, int layer, Matrix to) const;
  // The kv_head keeps these slots.
  Status compact(int layer, int kv_head, const KeepList& keep);
  // Gives memory back behind a compaction.
  Status shrink();
  // The cache ends at `position` now. Where that lies before what was added, nothing is known any more.
  void truncate(int32_t position);
  void clear() { truncate(-1); }

  Result<AttentionSums> copy() const;
  Status save(ByteWriter& to) const;
  // Instead of what is held; nothing where another shape was saved. kUsage: the bytes are damaged.
  Status restore(ByteReader& from);
  // While `slots` slots are held.
  int64_t bytes_for(int64_t slots) const;

 private:
  struct Layer {
    std::array<Buffer, 2> memory;    // [heads, capacity] doubles; memory[now_] counts
    int64_t capacity = 0;            // slots
    std::vector<int64_t> lengths;    // [kv_heads]: slots that have sums
    std::vector<int64_t> following;  // the same behind the chunk that is being read
  };

  // Queries in front of this position are to be added when a text ends at `end`.
  int32_t counted_at(int64_t end) const;
  Status grow(Layer& layer, int64_t slots);
  // Both memories with room for so many slots, the sums in force among them.
  Status resize(Layer& layer, int64_t capacity);
  // Rows of q, of consecutive positions from `first` on; the first call of a chunk begins with what is in force.
  void add(Stream& stream, Layer& layer, Matrix q, int32_t first, const KvView& view, bool begin) const;
  bool takes(int layer) const { return shape_.taken[static_cast<size_t>(layer)] != 0; }
  double* sums(const Layer& layer, size_t which) const { return static_cast<double*>(layer.memory[which].data()); }

  const Backend* backend_;
  AttentionSumsShape shape_;
  bool wanted_ = false;
  std::vector<Layer> layers_;  // [all layers]
  size_t now_ = 0;
  int32_t since_ = -1;    // the first query that was watched; -1: none yet
  int32_t counted_ = -1;  // queries from since_ to here are in the sums
};

}  // namespace ei::kv
