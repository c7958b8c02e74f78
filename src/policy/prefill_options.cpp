#include "policy/prefill_options.h"

#include <algorithm>
#include <cmath>

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
    case BlockRank::kHabit: return "habit";
    case BlockRank::kOracleSum: return "oracle-sum";
    case BlockRank::kOracleMax: return "oracle-max";
  }
  return "";
}

std::optional<BlockRank> block_rank_from_name(std::string_view name) {
  for (const BlockRank rank :
       {BlockRank::kMidrange, BlockRank::kPeak, BlockRank::kHabit, BlockRank::kOracleSum, BlockRank::kOracleMax})
    if (name == block_rank_name(rank)) return rank;
  return std::nullopt;
}

const char* asking_name(Asking asking) {
  switch (asking) {
    case Asking::kAuto: return "auto";
    case Asking::kGroup: return "group";
    case Asking::kHeads: return "heads";
    case Asking::kAll: return "all";
  }
  return "";
}

const char* logit_scale_name(LogitScale scale) { return scale == LogitScale::kNone ? "none" : "inverse-sqrt-dim"; }

std::optional<LogitScale> logit_scale_from_name(std::string_view name) {
  for (const LogitScale scale : {LogitScale::kNone, LogitScale::kInverseSqrtDim})
    if (name == logit_scale_name(scale)) return scale;
  return std::nullopt;
}

PrefillOptions for_model(PrefillOptions options, int32_t layers, int32_t global_layers) {
  constexpr int32_t kEveryLayerGlobal = 1024;
  if (options.base_budget == 0) {
    const double share = static_cast<double>(layers) / std::max(global_layers, 1);
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
  EI_RETURN_IF_ERROR(at_least_zero("resting share", options.resting_share));
  EI_RETURN_IF_ERROR(at_least_zero("wide share", options.wide_share));
  EI_RETURN_IF_ERROR(at_least_zero("rated share", options.rated_share));
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
  return options.rule == PrefillRule::kDense || (layer < options.layer_skip && options.early_share == 0);
}

bool fuses(const PrefillOptions& options, int32_t layer, bool follows) {
  return options.layer_fusion && layer > 1 && follows;
}

bool ranks_on_probabilities(const PrefillOptions& options) {
  return options.select == BlockRank::kMidrange && (options.mode == SparseMode::kReleased || options.layer_fusion);
}

}  // namespace ei::policy
