// KvMethod: what a KV compression decides, as pure data. One small file per method beside this one; policy/registry.h
// makes them by name.
//
// A compression walks: needs() says what is measured of every layer that attends to the whole text; rate() turns what
// was measured of a layer into one row of scores for each set of slots that is chosen together; layer_budgets() shares
// the slots out among the layers; keep() chooses. All is decided before anything is dropped. What varies over methods
// alike (sharing among layers and heads, who chooses on its own, protected slots, pooling) are stages here, set by
// options; a method says what its scores are.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "plan/block_plan.h"
#include "policy/kv/layer_share.h"
#include "policy/kv/options.h"
#include "policy/kv/ranking.h"

namespace ei::policy {

// What a method may know of the model.
struct KvShape {
  int32_t layers = 1;  // that attend to the whole text; others keep their window and take no part
  int32_t heads = 1;
  int32_t kv_heads = 1;
  int64_t slot_bytes = 1;  // of a key and a value of one kv_head

  int32_t group() const { return heads / kv_heads; }
};

// What is measured of the keys by themselves.
enum class KeyMeasure : uint8_t {
  kNone,
  kNorm,    // their length
  kCosine,  // with the mean of all normalised keys of the kv_head
};

// What is measured of a layer.
struct KvNeeds {
  QuerySource queries = QuerySource::kNone;  // mean attention of these queries to every slot
  bool row_entropy = false;                  // of every head: the entropy of single queries' attention, in the mean
  KeyMeasure keys = KeyMeasure::kNone;       // of every slot
  bool expected = false;                     // attention of future queries, distributed as these, to every slot
  bool accumulated = false;                  // sums of the attention of all queries so far to every slot
};

// One layer as it was measured. The arrays live as long as the call.
struct LayerMeasures {
  int32_t layer = 0;                 // counted among those that take part
  std::span<const int64_t> lengths;  // [kv_heads]: slots held
  const float* attention = nullptr;  // [heads, stride], where asked for; slot s of a head's kv_head at s
  int64_t stride = 0;
  std::span<const float> row_entropy{};  // [heads], where asked for
  std::span<const float> keys{};         // [kv_heads, stride], where asked for
  std::span<const float> expected{};     // [heads, stride], where asked for: times the length of the slot's value
  std::span<const float> accumulated{};  // [heads, stride], where asked for
  bool aligned = true;                   // do all kv_heads hold the same positions?
};

// Scores of the slots of a layer, higher stays: `rows` rows for each kv_head, [kv_heads * rows, stride].
struct LayerScores {
  const float* measured = nullptr;  // as they were measured, or
  std::vector<float> made{};        // made of what was
  int64_t stride = 0;
  int32_t rows = 1;  // the heads of a group, or 1

  const float* row(int64_t index) const { return (measured != nullptr ? measured : made.data()) + index * stride; }
};

// The sets of a layer that are chosen together.
struct LayerSets {
  std::vector<int64_t> slots;  // of each, outside the window
  int32_t group = 1;           // rows of attention that speak for one
};

// What a layer's slots are worth: a row for each set that is chosen together, over its slots outside the window.
struct LayerRating {
  std::vector<int64_t> lengths;    // [kv_heads]
  std::vector<SlotScores> sets;    // [heads], [kv_heads] or one, by granularity
  std::vector<SlotScores> keys{};  // of the same sets, where a share goes to keys unlike the others
  std::vector<double> distinct{};  // [sets], where asked for: exp(H - E), H and E as below but of a set's heads alone
  double entropy = 0;       // where asked for, the mean over the heads of the layer: of single queries' attention,
  double mean_entropy = 0;  // of the mean of all queries,
  double rest_entropy = 0;  // and of single queries' attention to what lies behind the sinks

  // What decides on its budget; holds as long as the rating.
  LayerState state(int64_t held) const {
    return {.held = held, .entropy = entropy, .mean_entropy = mean_entropy, .rest_entropy = rest_entropy, .sets = sets};
  }
};

class KvMethod {
 public:
  KvMethod(const KvOptions& options, const KvShape& shape) : options_(options), shape_(shape) {}
  virtual ~KvMethod() = default;

  const KvOptions& options() const { return options_; }
  const KvShape& shape() const { return shape_; }

  // What is to be measured: for its scores, and for the shares of the layers.
  KvNeeds needs() const;
  // Do the options fit this model?
  Status check() const;
  // Are scores made of keys, one for all heads of a kv_head? Else keys may be measured for a share of the slots.
  bool scores_by_keys() const { return scored_keys() != KeyMeasure::kNone; }
  // Slots per kv_head that a compression of a text of so many tokens leaves, in the mean.
  int64_t budget_at(int64_t tokens) const;

  // Scored, aggregated over the heads of a set, pooled over neighbours, sinks protected.
  LayerRating rate(const LayerMeasures& measured) const;
  // Are scores attention?
  bool rates_attention() const;
  // Are scores one of the measurements as score() has it here, so that a backend may aggregate and pool them itself?
  bool rates_measures() const;
  // The sets of a layer whose kv_heads hold so many slots, but for the latest `recent`; `aligned`: all of them the same
  // positions.
  LayerSets sets_of(std::span<const int64_t> lengths, bool aligned, int64_t recent) const;
  // The latest slots that stay of a layer with this budget: the window, or a share of the budget.
  int64_t recent(int64_t budget) const;
  // Slots per kv_head of every layer, their mean being the budget.
  std::vector<int64_t> layer_budgets(int64_t budget, std::span<const LayerState> layers) const;
  // The slots that each set keeps of a layer with this budget.
  std::vector<KeepList> choose(const LayerRating& rating, int64_t budget) const;
  // The slots that each kv_head keeps: what any of its sets does. An empty list: everything stays.
  std::vector<KeepList> keep(const LayerRating& rating, int64_t budget) const;
  // The same of lists that were chosen elsewhere: [sets], each with its recent slots.
  static std::vector<KeepList> united(const std::vector<KeepList>& chosen, std::span<const int64_t> lengths);

  // What of a layer is compared with its budget: the longest kv_head, or the mean where they share unevenly.
  int64_t held(std::span<const int64_t> lengths) const;
  int32_t num_sets() const;
  // The most slots that a compression may leave in a kv_head, in the mean where they share unevenly.
  int64_t most_kept(int64_t budget) const;

 protected:
  // What score() reads.
  virtual QuerySource scored_queries() const = 0;
  virtual KeyMeasure scored_keys() const { return KeyMeasure::kNone; }
  virtual bool scores_expected() const { return false; }
  // Higher stays. Here what was measured: of keys, turned round, so that the smallest are worth most, expected
  // attention, sums of attention, or attention itself.
  virtual LayerScores score(const LayerMeasures& measured) const;

 private:
  // Of a set's slots: how unlike their keys are to the mean direction of all.
  SlotScores unlike_others(const LayerMeasures& measured, int32_t set, int32_t sets, int64_t slots) const;

  KvOptions options_;
  KvShape shape_;
};

// The method that the options name; null for KvRule::kKeepAll.
std::unique_ptr<KvMethod> make_kv_method(const KvOptions& options, const KvShape& shape);

// The method whose scores are attention, whatever the other stages do: latent, snapkv, adakv ...
std::unique_ptr<KvMethod> make_attention_method(const KvOptions& options, const KvShape& shape);
KvOptions latent_preset();  // also what --method entropyinfer keeps

}  // namespace ei::policy
