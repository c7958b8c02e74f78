#include "report/options_json.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace ei::report {

nlohmann::ordered_json rounded(double value, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*g", digits, value);
  return std::isfinite(value) ? nlohmann::ordered_json(std::strtod(text, nullptr)) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json prefill_json(const policy::PrefillOptions& options) {
  return {{"budget-rule", options.rule == policy::PrefillRule::kFixed ? "fixed" : "entropy"},
          {"segment", options.segment},
          {"block", options.block},
          {"threshold", options.threshold},
          {"base-budget", options.base_budget},
          {"min-budget", options.min_budget > 0 ? options.min_budget : options.base_budget},
          {"max-factor", options.max_factor},
          {"e-t", options.e_t},
          {"delta-t", options.delta_t},
          {"alpha", options.alpha},
          {"layer-skip", options.layer_skip},
          {"early-share", options.early_share},
          {"rigid-test", options.rigid_test == policy::RigidTest::kCausal ? "causal" : "whole-trace"},
          {"layer-fusion", options.layer_fusion},
          {"logit-scale", policy::logit_scale_name(options.logit_scale)},
          {"last-dense", options.last_dense},
          {"sparse-mode", policy::sparse_mode_name(options.mode)},
          {"select", policy::block_rank_name(options.select)},
          {"asking", policy::asking_name(options.asking)},
          {"local-budget", options.local_budget},
          {"resting-share", options.resting_share},
          {"wide-share", options.wide_share},
          {"rated-share", options.rated_share}};
}

nlohmann::ordered_json kv_json(const policy::KvOptions& options) {
  if (options.rule == policy::KvRule::kKeepAll) return {{"kv-policy", "full"}};
  return {{"kv-policy", "latent"},
          {"kv-budget", options.budget},
          {"kv-share", policy::kv_share_name(options.share)},
          {"kv-gap", options.gap},
          {"kv-window", options.window},
          {"kv-repeat", options.repeat},
          {"kv-pooling", options.pooling == policy::Pooling::kMax ? "max" : "average"},
          {"kv-kernel", options.kernel},
          {"kv-aggregate", options.aggregate == policy::GroupAggregate::kMax ? "max" : "mean"}};
}

}  // namespace ei::report
