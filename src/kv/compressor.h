// Compressor: carries out what a KV method asks for. Records what is to be measured of every layer, hands it to the
// method, and drops what the method does not keep: measure -> rate -> share out -> keep lists -> Store::compact.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "kv/carried_scores.h"
#include "kv/expected_attention.h"
#include "kv/observer.h"
#include "kv/store.h"
#include "policy/kv/method.h"
#include "policy/kv/schedule.h"

namespace ei::kv {

struct CompressorShape {
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  float attention_scale = 0;
  int64_t slot_bytes = 1;        // of a key and a value of one kv_head
  std::vector<int32_t> windows;  // [layers]: sliding window of the layer; 0: it attends to everything
  std::vector<LayerRope> ropes;  // [layers], for methods that undo rotations
};

class Compressor {
 public:
  // options.rule is not kKeepAll. kUsage where the options do not fit the model.
  static Result<Compressor> create(const Backend& backend, const policy::KvOptions& options, CompressorShape shape);

  const policy::KvOptions& options() const { return method_->options(); }
  Observer& observer() { return observer_; }
  const Observer& observer() const { return observer_; }

  // A prompt has been read, a generated token appended. True: compress now.
  bool prompt_read(const Store& store) { return schedule_.prompt_read(over_budget(store)); }
  bool token_appended(const Store& store) { return schedule_.token_appended(over_budget(store)); }
  // Another cache is gone on with, as if it had just been read; what was observed of the last one is forgotten.
  void restart();
  // The cache goes on from where that of another compressor stands.
  void take(Stream& stream, const Compressor& from);
  // What goes on beside the cache, as bytes: recorded queries, the schedule's clock, carried scores. Between chunks.
  std::string memory(Stream& stream) const;
  // Goes on with what memory() gave for this cache. Of another method nothing but the queries, where both observe
  // alike. kUsage: the bytes are damaged.
  Status recall(Stream& stream, std::string_view memory);
  // Behind the cache stand no more tokens: a prompt ends here.
  void forget_clock() { schedule_.restart(); }
  // The cache was rewound to its present end.
  void rewound(const Store& store);

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
  using LayerKeeps = std::vector<KeepList>;  // [kv_heads]; an empty list: everything stays

  // One compression on its way. By layer means: of those that take part; the others lose what lies outside their
  // window.
  struct Decision {
    int64_t budget = 0;                        // slots per kv_head in the mean
    std::vector<int> layers;                   // that take part
    std::vector<policy::LayerState> states;    // by layer
    std::vector<int64_t> budgets;              // by layer; where entropies decide, known when all are measured
    std::vector<policy::LayerRating> ratings;  // by layer; kept only as long as the budgets are not known
    float* attention = nullptr;                // [heads, slots], of one layer at a time
    bool on_stream = false;                    // the stream rates and chooses: nothing but lists comes to the host
    float* entropy = nullptr;                  // [heads], of one layer at a time; null: not asked for
    std::vector<LayerKeeps> keeps;             // [all layers]
    // On the stream.
    float* rated = nullptr;     // of all sets of one layer
    int32_t* chosen = nullptr;  // shared: of one layer, [sets, most]
    int32_t* counts = nullptr;  // shared: [layers, sets], and once more what all sets share
    int64_t most = 0;
  };

  Compressor(const Backend& backend, std::unique_ptr<policy::KvMethod> method, CompressorShape shape,
             Observer observer);

  bool over_budget(const Store& store) const { return most_held(store) > method_->budget_at(store.next_position()); }
  bool takes_part(int layer) const { return shape_.windows[static_cast<size_t>(layer)] == 0; }
  // The steps of compress(), in the order in which they run. Each fills the decision when the stream does.
  Result<Decision> begin(Stream& stream, const Store& store) const;
  Status rate(Stream& stream, const Store& store, size_t index, Decision& decision);
  void measure_attention(Stream& stream, const KvView& view, int layer, const Decision& decision) const;
  Result<std::vector<float>> measure_expected(Stream& stream, const Store& store, int layer) const;
  void share_out(Stream& stream, Decision& decision);
  void keep(size_t index, const policy::LayerRating& rating, Decision& decision);
  LayerKeeps keep_window(const Store& store, int layer) const;
  // The same steps where the stream rates and chooses (compressor_stream.cpp).
  bool chosen_by(const Stream& stream) const;
  Status prepare(Stream& stream, int64_t slots, Decision& decision) const;
  Status measure_entropies(Stream& stream, const Store& store, Decision& decision) const;
  void choose_on_stream(Stream& stream, const KvView& view, size_t index, Decision& decision) const;

  const Backend* backend_;
  std::unique_ptr<policy::KvMethod> method_;
  CompressorShape shape_;
  Observer observer_;
  policy::KvSchedule schedule_;
  CarriedScores carried_;
};

}  // namespace ei::kv
