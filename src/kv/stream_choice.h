// StreamChoice: the step of a compression whose stream rates and chooses slots itself. Measurements stay where they
// were made, counts go there and lists come back.
#pragma once

#include <cstdint>
#include <span>

#include "backend/backend.h"
#include "base/result.h"
#include "kv/compression_steps.h"

namespace ei::kv {

class StreamChoice {
 public:
  // Can the stream carry out such a method?
  static bool serves(const Stream& stream, const policy::KvMethod& method);

  StreamChoice(Compression& run, const AttentionStep& attention, const RateStep& rate)
      : run_(run), attention_(attention), rate_(rate) {}

  Status reserve(Stream& stream);
  // Where entropies decide: all layers' are measured first, and share out the slots.
  Status measure_shares(Stream& stream);
  // Measures the slots of a layer, rates them and chooses.
  Status record(Stream& stream, size_t index);

 private:
  int64_t most_sets() const;
  int64_t counts_of_layer() const { return 2 * most_sets() + 1; }
  // Of counts of sets, those that go to keys.
  int32_t* by_keys_of(int32_t* counts) const { return counts + most_sets() + 1; }
  const int32_t* by_keys_of(const int32_t* counts) const { return counts + most_sets() + 1; }
  // Are scores attention of the observed queries, which AttentionStep measures?
  bool by_attention() const;
  bool by_keys() const;  // or made of keys, one for all heads of a kv_head?
  // Scores [heads, longest kv_head] of a layer, by keys [kv_heads, longest kv_head], in stream memory.
  Result<const float*> measure(Stream& stream, size_t index) const;
  // Where a share goes to keys unlike the others: their ratings, without what is chosen by scores, and the choice.
  Status record_keys(Stream& stream, size_t index, std::span<const int64_t> slots, const int32_t* counts);
  bool shares_with_keys() const { return run_.method.options().key_share > 0 && !by_keys(); }
  // Does it depend on what attention spreads over how many slots go to keys?
  bool asks_spreads() const { return shares_with_keys() && run_.method.options().attended > 0; }
  // So many of each set's slots go to keys.
  void split_counts(int64_t sets, int32_t* counts) const;
  // Slots of each set that its layer's best slots, whichever set they belong to, leave it.
  void share_on_host(std::span<const int64_t> slots, int32_t base, int32_t total, int32_t* counts) const;
  void lists_on_host(size_t index, std::span<const int64_t> slots, const int32_t* counts);

  Compression& run_;
  const AttentionStep& attention_;
  const RateStep& rate_;
  Matrix measured_;            // of one layer, where the stream measures what scores are made of beside attention
  Matrix keys_;                // of one layer, where the stream measures them beside what scores are made of
  float* ratings_ = nullptr;   // of all sets of one layer
  int32_t* chosen_ = nullptr;  // shared: of one layer, [sets, most_]
  int32_t* counts_ = nullptr;  // shared: [layers, counts_of_layer()]: of sets, what all share, of sets by keys
  float* spreads_ = nullptr;   // shared: of one layer, [sets]
  int64_t most_ = 0;
};

}  // namespace ei::kv
