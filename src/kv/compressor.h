// Compressor: shrinks the cache of a session to what its last queries attend to. Per layer and kv_head: scores of the
// slots under the recorded queries -> keep list -> Store::compact.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "kv/observer.h"
#include "kv/store.h"
#include "policy/kv/recipe.h"

namespace ei::kv {

struct CompressorShape {
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  float attention_scale = 0;
  std::vector<int32_t> windows;  // [layers]: sliding window of the layer; 0: it attends to everything
};

class Compressor {
 public:
  static Result<Compressor> create(const Backend& backend, const policy::KvOptions& options, CompressorShape shape);

  const policy::KvOptions& options() const { return options_; }
  Observer& observer() { return observer_; }
  const Observer& observer() const { return observer_; }

  // What the schedule compares with the budget: the most slots a kv_head holds that a compression could drop some of;
  // where kv_heads share unevenly, the mean of a layer's. Of a layer with a sliding window that is what lies outside
  // it.
  int64_t most_held(const Store& store) const;
  // The most slots per kv_head, so counted, that a prompt and `generated` tokens behind it take at any time.
  int64_t most_slots(int64_t prompt, int64_t generated) const;

  // Compresses every kv_head that holds more than its budget, or than its share of the layer's; returns the slots
  // dropped. Layers with a sliding window lose exactly what no query can see any more, neither the next one nor any
  // within a rewind of the observed window. All is decided before anything is dropped: an interruption while scoring
  // changes nothing.
  Result<int64_t> compress(Stream& stream, Store& store) const;

  // Memory of a compression of `slots` slots, beside the cache.
  int64_t bytes_for(int64_t slots) const;

 private:
  using LayerKeeps = std::vector<KeepList>;  // [kv_heads]; an empty list: everything stays

  Compressor(const policy::KvOptions& options, CompressorShape shape, Observer observer);

  int64_t held_slots(const KvView& view) const;
  // Records what fills `keeps` when the stream runs.
  void decide(Stream& stream, const Store& store, int layer, float* scores, LayerKeeps& keeps) const;
  LayerKeeps keep_window(const Store& store, int layer) const;

  policy::KvOptions options_;
  CompressorShape shape_;
  Observer observer_;
};

}  // namespace ei::kv
