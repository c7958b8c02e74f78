// What a sparse prefill may be told: the parameters of the method, with the names docs and flags use.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "plan/block_plan.h"

namespace ei::policy {

// A budget rule by its name; policy/registry.h lists them.
struct PrefillRule {
  std::string_view name;

  static const PrefillRule kDense;    // every segment reads everything
  static const PrefillRule kEntropy;  // entropies of sampled attention divide one density (entropyinfer.cpp)
  static const PrefillRule kGrowth;  // published: budgets follow the growth of the entropy of block scores (growth.cpp)
  static const PrefillRule kLevel;   // more for high entropy of block scores, less for low (level.cpp)
  static const PrefillRule kHabit;   // growth, and shares of the text by type of head (habit.cpp)
  static const PrefillRule kFixed;   // every kv_head and segment reads base_budget (fixed.cpp)

  friend constexpr bool operator==(const PrefillRule& a, const PrefillRule& b) { return a.name == b.name; }
};
inline constexpr PrefillRule PrefillRule::kDense{"dense"};
inline constexpr PrefillRule PrefillRule::kEntropy{"entropy"};
inline constexpr PrefillRule PrefillRule::kGrowth{"growth"};
inline constexpr PrefillRule PrefillRule::kLevel{"level"};
inline constexpr PrefillRule PrefillRule::kHabit{"habit"};
inline constexpr PrefillRule PrefillRule::kFixed{"fixed"};

enum class SparseMode : uint8_t {
  kRagged,     // every kv_head reads its own count of blocks, ranked on logits
  kCollapsed,  // every kv_head reads the largest count of its layer, ranked on logits
  kReleased,   // as collapsed, ranked on probabilities, which tie at 0 where they underflow
};
const char* sparse_mode_name(SparseMode mode);  // "ragged", "collapsed", "released"
std::optional<SparseMode> sparse_mode_from_name(std::string_view name);

// What ranks the blocks of a segment (kernels/block_scores/block_scores.h).
enum class BlockRank : uint8_t {
  kMidrange,   // published: the middle of the segment's queries against the extremes of the block's keys
  kPeak,       // the largest score of a row, relative to all that the row attends to
  kAdaptive,   // the same with as many queries, rows and candidates as the type of a kv_head calls for
  kOracleSum,  // true attention mass, summed over the rows; for research
  kOracleMax,  // true attention mass of the row that gives the block most; for research
};
const char* block_rank_name(BlockRank rank);  // "midrange", "peak", "adaptive", "oracle-sum", "oracle-max"

// Whose queries rank blocks, with BlockRank::kAdaptive.
enum class RankQueries : uint8_t {
  kAuto,   // the most of the others that costs little next to the model's own products; entropy: see few_places
  kGroup,  // one query for the heads of a kv_head, in some of the rows
  kHeads,  // every head for itself, in some of the rows
  kAll,    // every head in every row, about every block
};
const char* rank_queries_name(RankQueries queries);  // "auto", "group", "heads", "all"

// The temperature of the logits whose entropy is taken. The ranking does not depend on it.
enum class LogitScale : uint8_t { kNone, kInverseSqrtDim };
const char* logit_scale_name(LogitScale scale);  // "none", "inverse-sqrt-dim"

// When does a kv_head stop being rigid?
enum class RigidTest : uint8_t {
  kCausal,      // at its first segment with E >= e_t: the plan does not depend on how a prompt is cut
  kWholeTrace,  // at once when any segment pushed together with this one has E >= e_t, later ones included
};

const char* rigid_test_name(RigidTest test);  // "causal", "whole-trace"

struct PrefillOptions {
  PrefillRule rule = PrefillRule::kDense;
  int32_t segment = 512;     // S, query rows that share one choice
  int32_t block = 8;         // B, key rows chosen together; divides segment
  int32_t threshold = 4096;  // T: segments that begin before this position are dense
  bool last_dense = true;    // the last segment of a prompt reads everything

  // How much is read. Entropy: of what lies before a segment a kv_head reads this share and that many tokens more, on
  // the average over heads and layers; or base_budget tokens where that is set.
  double density = 0.065;
  int32_t density_base = 384;
  int32_t base_budget = 2048;  // B0, tokens; 0: for_model() chooses
  int32_t local_budget = 128;  // tokens that a kv_head reads however little it looks back: sink and latest
  // Entropy: the weight of a kv_head is exp(H_segment)^a * exp(H_segment - H_row)^b * far^c.
  double spread_power = 0.75;   // a
  double distinct_power = 1.5;  // b
  double far_power = 1;         // c
  int32_t sample_every = 2;     // segments between two samples of the attention, behind the dense beginning
  double sample_memory = 0.9;   // share of the means that a new sample leaves
  double open_memory = 0.5;     // the same where a head opens up
  int32_t shuffle = 0;          // for research: other than 0, each kv_head gets the weight of another
  int32_t whole_layer = -1;     // for research: this layer's kv_heads read everything; -1: none
  int32_t whole_head = -1;      // of that layer this kv_head alone; -1: all
  // Cumulative.
  double cover = 0.95;  // share of the estimated attention that the blocks which are read hold
  // Growth, level and habit.
  int32_t min_budget = 0;   // lower clamp of a dynamic budget, tokens; 0: base_budget
  double max_factor = 3.0;  // upper clamp, in base budgets
  double e_t = 1e-5;        // entropy under which a kv_head counts as rigid
  double delta_t = 0.4;     // relative growth of the entropy that leaves a budget as it is
  double alpha = 0.5;       // base budgets added for a growth of delta_t + 1
  RigidTest rigid_test = RigidTest::kCausal;
  LogitScale logit_scale = LogitScale::kNone;
  int32_t layer_skip = 1;   // layers below stay dense
  int32_t early_share = 0;  // or read at least 1/early_share of what lies before (half of that beyond 32768 tokens),
                            // in chosen blocks; 0: dense
  // Habit: a sink and a diffuse kv_head read at least 1/share of what lies before (a sink head twice that beyond 32768
  // tokens); 0: no share.
  int32_t sink_share = 4;
  int32_t diffuse_share = 16;

  // Which blocks.
  SparseMode mode = SparseMode::kRagged;
  BlockRank select = BlockRank::kMidrange;
  bool layer_fusion = false;  // blend the block probabilities with those of the layer before
  RankQueries rank_queries = RankQueries::kAuto;
  // Adaptive: only candidates of a kv_head are rated, those with the largest upper bounds, never less than the
  // threshold. Entropy: rated_per_read pairs of query and block for each that it reads; other rules, diffuse kv_heads:
  // 1/candidate_share of what lies before (a quarter of that beyond 32768 tokens). 0: all.
  double rated_per_read = 2;
  // Entropy: of a head whose rows look at fewer different places than this a part of the rows rates, as the square of
  // the places; others rank as their type does. 0: all by types, as with the other rules.
  double few_places = 5;
  int32_t candidate_share = 0;

  SegmentGrid grid() const { return {segment, block}; }
};

// For a model in which `global_layers` of `layers` see the whole text: where few do they carry it all, and may spend
// what the others save. Density grows accordingly, up to 1; a base budget that was not given becomes 1024 tokens where
// all layers are global (for rules that have one).
PrefillOptions for_model(PrefillOptions options, int32_t layers, int32_t global_layers);

// One line that names the wrong value and the cure.
Status validate(const PrefillOptions& options);

// Does this segment of a prompt that ends at position `prompt_tokens` read everything?
bool is_dense_segment(const PrefillOptions& options, int32_t segment, int64_t prompt_tokens);
// Does this layer read everything?
bool is_dense_layer(const PrefillOptions& options, int32_t layer);
// Do block lists rank on probabilities instead of logits? (Fused probabilities have no logits of their own.)
bool ranks_on_probabilities(const PrefillOptions& options);
// Are a layer's block probabilities blended with those of the profiled layer before it, if it `follows` one?
bool fuses(const PrefillOptions& options, int32_t layer, bool follows);

}  // namespace ei::policy
