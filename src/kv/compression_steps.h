// The steps of a compression: AttentionStep measures how the observed queries attend to a layer's slots, RateStep has
// the method rate them on the host and keeps what it chooses. Where the stream does that itself: stream_choice.h.
#pragma once

#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "kv/attention_sums.h"
#include "kv/carried_scores.h"
#include "kv/compression.h"

namespace ei::kv {

class AttentionStep {
 public:
  // Is attention wanted, for scores or for shares of the layers?
  static bool wanted(const policy::KvNeeds& needs);
  // `host_reads` the scores; the entropies it reads always.
  Status reserve(Stream& stream, const Compression& run, bool host_reads);
  // One layer at a time: the next one's go to the same place.
  void record(Stream& stream, const Compression& run, size_t index) const;

  float* scores() const { return scores_; }                        // [heads, longest kv_head]; null: not wanted
  std::span<const float> entropies() const { return entropies_; }  // [heads]; empty: not wanted

 private:
  float* scores_ = nullptr;
  std::span<float> entropies_;
};

class RateStep {
 public:
  // Of a layer, beside attention.
  struct Measured {
    std::vector<float> keys;
    std::vector<float> expected;
    std::vector<float> accumulated;
  };

  RateStep(const Backend& backend, Compression& run, const AttentionStep& attention, CarriedScores& carried,
           const AttentionSums& sums)
      : backend_(backend),
        run_(run),
        attention_(attention),
        carried_(carried),
        sums_(sums),
        ratings_(run.layers.size()) {}

  // Measures what the method wants beside attention, then rates the layer, and where its budget is known chooses.
  Status record(Stream& stream, size_t index);
  // Where the budgets were not known: every layer has been rated, now they share out and choose.
  void record_shares(Stream& stream);
  // What the method wants of a layer, on the host; the stream stands still meanwhile.
  Result<Measured> measure(Stream& stream, size_t index) const;
  // Where the stream measures slots itself, what they are scored by beside attention: into its memory.
  Status measure_there(Stream& stream, size_t index, Matrix scores) const;

 private:
  void on_host(size_t index, const Measured& measured);
  void keep(size_t index, const policy::LayerRating& rating);

  const Backend& backend_;
  Compression& run_;
  const AttentionStep& attention_;
  CarriedScores& carried_;
  const AttentionSums& sums_;
  std::vector<policy::LayerRating> ratings_;  // by layer; kept only as long as the budgets are not known
};

}  // namespace ei::kv
