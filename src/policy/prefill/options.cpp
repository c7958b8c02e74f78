#include "policy/prefill/options.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "policy/registry.h"

namespace ei::policy {
namespace {

Status positive(const char* name, int32_t value) {
  if (value > 0) return {};
  return make_error(ErrorKind::kUsage, "%s must be positive: %d", name, value);
}

Status at_least_zero(const char* name, double value) {
  if (std::isfinite(value) && value >= 0) return {};
  return make_error(ErrorKind::kUsage, "%s must be a number of at least 0: %g", name, value);
}

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
  EI_RETURN_IF_ERROR(positive("segment", options.segment));
  EI_RETURN_IF_ERROR(positive("block", options.block));
  EI_RETURN_IF_ERROR(at_least_zero("base budget", options.base_budget));
  if (options.segment % options.block != 0)
    return make_error(ErrorKind::kUsage, "block must divide segment: %d does not divide %d", options.block,
                      options.segment);
  EI_RETURN_IF_ERROR(at_least_zero("threshold", options.threshold));
  EI_RETURN_IF_ERROR(at_least_zero("e_t", options.e_t));
  EI_RETURN_IF_ERROR(at_least_zero("delta_t", options.delta_t));
  EI_RETURN_IF_ERROR(at_least_zero("alpha", options.alpha));
  EI_RETURN_IF_ERROR(at_least_zero("layer_skip", options.layer_skip));
  EI_RETURN_IF_ERROR(at_least_zero("early share", options.early_share));
  EI_RETURN_IF_ERROR(at_least_zero("local budget", options.local_budget));
  EI_RETURN_IF_ERROR(at_least_zero("sink share", options.sink_share));
  EI_RETURN_IF_ERROR(at_least_zero("diffuse share", options.diffuse_share));
  EI_RETURN_IF_ERROR(at_least_zero("candidate share", options.candidate_share));
  if (!(options.density > 0 && options.density <= 1))
    return make_error(ErrorKind::kUsage, "density must lie above 0 and be at most 1: %g", options.density);
  if (!(options.cover > 0 && options.cover <= 1))
    return make_error(ErrorKind::kUsage, "cover must lie above 0 and be at most 1: %g", options.cover);
  EI_RETURN_IF_ERROR(at_least_zero("density base", options.density_base));
  EI_RETURN_IF_ERROR(at_least_zero("spread power", options.spread_power));
  EI_RETURN_IF_ERROR(at_least_zero("distinct power", options.distinct_power));
  EI_RETURN_IF_ERROR(at_least_zero("far power", options.far_power));
  EI_RETURN_IF_ERROR(positive("sample every", options.sample_every));
  if (!(options.sample_memory >= 0 && options.sample_memory < 1))
    return make_error(ErrorKind::kUsage, "sample memory must be at least 0 and below 1: %g", options.sample_memory);
  if (const PrefillEntry* rule = find_prefill_rule(options.rule);
      rule != nullptr && options.select != rule->select.value_or(options.select))
    return make_error(ErrorKind::kUsage, "budget rule %s works with --select %s only, not with %s; take %s",
                      std::string(rule->name).c_str(), block_rank_name(*rule->select), block_rank_name(options.select),
                      rules_for(options.select).c_str());
  if (options.min_budget < 0 || (options.base_budget > 0 && options.min_budget > options.base_budget))
    return make_error(ErrorKind::kUsage, "min budget must lie between 0 and the base budget: %d, base budget %d",
                      options.min_budget, options.base_budget);
  if (options.mode == SparseMode::kReleased && options.select != BlockRank::kMidrange)
    return make_error(ErrorKind::kUsage,
                      "sparse mode released ranks blocks by midrange only, not by %s; add --select midrange",
                      block_rank_name(options.select));
  // The product must stay a number of tokens that fits 32 bits.
  if (!(options.max_factor >= 1.0) || options.max_factor * options.base_budget > 1e9)
    return make_error(ErrorKind::kUsage, "max factor must be at least 1 and max factor x base budget at most 1e9: %g",
                      options.max_factor);
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
