// Compressor: carries out what a KV method asks for. Records what is to be measured of every layer
// (compression_steps.h), hands it to the method, and drops what the method does not keep: measure -> rate -> share out
// -> keep lists -> Store::compact.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "kv/attention_sums.h"
#include "kv/carried_scores.h"
#include "kv/compression.h"
#include "kv/observer.h"
#include "kv/store.h"
#include "policy/kv/method.h"
#include "policy/kv/schedule.h"

namespace ei::kv {

class Compressor {
 public:
  // options.rule is not kKeepAll. kUsage where the options do not fit the model.
  static Result<Compressor> create(const Backend& backend, const policy::KvOptions& options, CompressorShape shape);

  const policy::KvOptions& options() const { return method_->options(); }
  const Observer& observer() const { return observer_; }

  // Enqueues what the queries of a chunk that begins at position `first`, q [tokens, width], leave behind: call for
  // every layer, whose `view` holds the chunk's keys; then advance(), or nothing when the chunk failed.
  Status record(Stream& stream, int layer, Matrix q, int32_t first, const KvView& view);
  void advance(int32_t first, int64_t tokens);

  // A prompt has been read, a generated token appended. True: compress now.
  bool prompt_read(const Store& store) { return schedule_.prompt_read(over_budget(store)); }
  bool token_appended(const Store& store) { return schedule_.token_appended(over_budget(store)); }
  // Another cache is gone on with, as if it had just been read; what was observed of the last one is forgotten.
  void restart();
  // The cache goes on from where that of another compressor stands.
  Status take(Stream& stream, const Compressor& from);
  // What goes on beside the cache, as bytes: recorded queries, the schedule's clock, carried scores, sums of attention.
  // Between chunks.
  Result<std::string> memory(Stream& stream) const;
  // Goes on with what memory() gave for this cache. Of another method nothing but the queries, where both observe
  // alike. kUsage: the bytes are damaged.
  Status recall(Stream& stream, std::string_view memory);
  // Behind the cache stand no more tokens: a prompt ends here.
  void forget_clock() { schedule_.restart(); }
  // The cache was rewound to its present end.
  void rewound(const Store& store);
  // A fork of the cache will be compressed and gone on with; rewound() leads back to `store`.
  Status begin_view(Stream& stream, const Store& store);
  // The last position <= `position` at which what is known besides the cache allows to read on: sums of attention that
  // queries behind it are part of do not.
  int32_t rewind_point(int32_t position) const;
  // Does the method know all it wants of a cache that ends at `position`? Not where another one watched it being read.
  bool complete(int32_t position) const { return sums_.complete(position); }

  // Slots per kv_head, in the mean where they or the layers share unevenly.
  int64_t budget(const Store& store) const { return method_->budget_at(store.next_position()); }
  // What the schedule compares with the budget: the most slots a kv_head holds that a compression could drop some of;
  // where kv_heads share unevenly, the mean of a layer's, and where layers do, the mean of them. Of a layer with a
  // sliding window that is what lies outside it.
  int64_t most_held(const Store& store) const;
  // The most slots per kv_head, so counted, that a prompt and `generated` tokens behind it take at any time.
  int64_t most_slots(int64_t prompt, int64_t generated) const;

  // Compresses every layer that holds more than its budget; returns the slots dropped. Layers with a sliding window
  // lose exactly what no query can see any more, neither the next one nor any within a rewind of the observed window.
  // All is decided before anything is dropped: an interruption while measuring changes nothing.
  Result<int64_t> compress(Stream& stream, Store& store);

  // Memory of a compression of `slots` slots, beside the cache.
  int64_t bytes_for(int64_t slots) const;

 private:
  Compressor(const Backend& backend, std::unique_ptr<policy::KvMethod> method, CompressorShape shape,
             Observer observer);

  bool over_budget(const Store& store) const { return most_held(store) > budget(store); }
  bool takes_part(int layer) const { return shape_.windows[static_cast<size_t>(layer)] == 0; }
  // Which layers take part, and what the others lose.
  Compression begin(const Store& store) const;
  LayerKeeps keep_window(const Store& store, int layer) const;
  Result<int64_t> drop(const std::vector<LayerKeeps>& keeps, Store& store);

  const Backend* backend_;
  std::unique_ptr<policy::KvMethod> method_;
  CompressorShape shape_;
  Observer observer_;
  policy::KvSchedule schedule_;
  CarriedScores carried_;
  AttentionSums sums_;
  std::optional<AttentionSums> whole_;  // those of the cache behind a view
};

}  // namespace ei::kv
