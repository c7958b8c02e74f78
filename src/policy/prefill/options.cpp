#include "policy/prefill/options.h"

#include <algorithm>
#include <string>

#include "policy/prefill/option_table.h"
#include "policy/registry.h"

namespace ei::policy {
namespace {

bool by_density(const PrefillOptions& options) {
  const PrefillEntry* entry = find_prefill_rule(options.rule);
  return entry != nullptr && entry->by_density;
}

// The rules that work with this ranking.
std::string rules_for(BlockRank select) {
  std::string names;
  for (const PrefillEntry& rule : prefill_rules())
    if (select == rule.select.value_or(select))
      names += (names.empty() ? "--budget-rule " : ", ") + std::string(rule.name);
  return names;
}

}  // namespace

const char* sparse_mode_name(SparseMode mode) {
  switch (mode) {
    case SparseMode::kRagged: return "ragged";
    case SparseMode::kCollapsed: return "collapsed";
    case SparseMode::kReleased: return "released";
  }
  return "";
}

std::optional<SparseMode> sparse_mode_from_name(std::string_view name) {
  for (const SparseMode mode : {SparseMode::kRagged, SparseMode::kCollapsed, SparseMode::kReleased})
    if (name == sparse_mode_name(mode)) return mode;
  return std::nullopt;
}

const char* block_rank_name(BlockRank rank) {
  switch (rank) {
    case BlockRank::kMidrange: return "midrange";
    case BlockRank::kPeak: return "peak";
    case BlockRank::kAdaptive: return "adaptive";
    case BlockRank::kOracleSum: return "oracle-sum";
    case BlockRank::kOracleMax: return "oracle-max";
  }
  return "";
}

const char* rank_queries_name(RankQueries queries) {
  switch (queries) {
    case RankQueries::kAuto: return "auto";
    case RankQueries::kGroup: return "group";
    case RankQueries::kHeads: return "heads";
    case RankQueries::kAll: return "all";
  }
  return "";
}

const char* logit_scale_name(LogitScale scale) { return scale == LogitScale::kNone ? "none" : "inverse-sqrt-dim"; }

const char* rigid_test_name(RigidTest test) { return test == RigidTest::kCausal ? "causal" : "whole-trace"; }

PrefillOptions for_model(PrefillOptions options, int32_t layers, int32_t global_layers) {
  constexpr int32_t kEveryLayerGlobal = 1024;
  const double share = static_cast<double>(layers) / std::max(global_layers, 1);
  options.density = std::min(1.0, options.density * share);
  options.density_base = static_cast<int32_t>(options.density_base * share);
  if (options.base_budget == 0 && !by_density(options)) {
    const auto tokens = static_cast<int32_t>(kEveryLayerGlobal * share);
    options.base_budget = std::max({tokens / options.block * options.block, options.block, options.min_budget});
  }
  return options;
}

Status validate(const PrefillOptions& options) {
  EI_RETURN_IF_ERROR(check_ranges(prefill_option_table(), options));
  if (options.segment % options.block != 0)
    return make_error(ErrorKind::kUsage, "block must divide segment: %d does not divide %d", options.block,
                      options.segment);
  if (const PrefillEntry* rule = find_prefill_rule(options.rule);
      rule != nullptr && options.select != rule->select.value_or(options.select))
    return make_error(ErrorKind::kUsage, "budget rule %s works with --select %s only, not with %s; take %s",
                      std::string(rule->name).c_str(), block_rank_name(*rule->select), block_rank_name(options.select),
                      rules_for(options.select).c_str());
  if (options.base_budget > 0 && options.min_budget > options.base_budget)
    return make_error(ErrorKind::kUsage, "min budget must lie between 0 and the base budget: %d, base budget %d",
                      options.min_budget, options.base_budget);
  if (options.mode == SparseMode::kReleased && options.select != BlockRank::kMidrange)
    return make_error(ErrorKind::kUsage,
                      "sparse mode released ranks blocks by midrange only, not by %s; add --select midrange",
                      block_rank_name(options.select));
  // The product must stay a number of tokens that fits 32 bits.
  if (options.max_factor * options.base_budget > 1e9)
    return make_error(ErrorKind::kUsage, "max factor x base budget must be at most 1e9: %g x %d", options.max_factor,
                      options.base_budget);
  return {};
}

bool is_dense_segment(const PrefillOptions& options, int32_t segment, int64_t prompt_tokens) {
  if (options.rule == PrefillRule::kDense || segment == 0) return true;
  const int64_t begin = int64_t{segment} * options.segment;
  const bool last = begin + options.segment >= prompt_tokens;
  return begin < options.threshold || (last && options.last_dense);
}

bool is_dense_layer(const PrefillOptions& options, int32_t layer) {
  if (options.rule == PrefillRule::kDense) return true;
  return !by_density(options) && layer < options.layer_skip && options.early_share == 0;
}

bool fuses(const PrefillOptions& options, int32_t layer, bool follows) {
  return options.layer_fusion && layer > 1 && follows;
}

bool ranks_on_probabilities(const PrefillOptions& options) {
  return options.select == BlockRank::kMidrange && (options.mode == SparseMode::kReleased || options.layer_fusion);
}

}  // namespace ei::policy
