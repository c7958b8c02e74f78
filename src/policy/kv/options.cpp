#include "policy/kv/options.h"

namespace ei::policy {

const char* kv_share_name(KvShare share) { return share == KvShare::kFlat ? "flat" : "adaptive"; }

const char* kv_layers_name(KvLayers layers) { return layers == KvLayers::kFlat ? "flat" : "pyramid"; }

const char* kv_granularity_name(KvGranularity granularity) {
  return granularity == KvGranularity::kHead ? "head" : "kv_head";
}

const char* kv_rounding_name(KvRounding rounding) { return rounding == KvRounding::kExact ? "exact" : "released"; }

Status validate(const KvOptions& options) {
  if (options.window < 1) return make_error(ErrorKind::kUsage, "window must be positive: %d", options.window);
  if (options.budget <= options.window)
    return make_error(ErrorKind::kUsage, "KV budget must exceed the window, which always stays: %d <= %d",
                      options.budget, options.window);
  if (options.sinks < 0 || options.sinks > options.budget - options.window)
    return make_error(ErrorKind::kUsage, "sinks and window must fit into the KV budget: %d + %d > %d", options.sinks,
                      options.window, options.budget);
  if (options.gap < -1) return make_error(ErrorKind::kUsage, "gap must be at least -1: %d", options.gap);
  if (options.repeat < 0) return make_error(ErrorKind::kUsage, "repeat must be at least 0: %d", options.repeat);
  if (options.kernel < 1 || options.kernel % 2 == 0)
    return make_error(ErrorKind::kUsage, "pooling kernel must be odd and positive: %d", options.kernel);
  if (!(options.floor_share >= 0 && options.floor_share <= 1))
    return make_error(ErrorKind::kUsage, "floor share must lie between 0 and 1: %g", options.floor_share);
  return {};
}

}  // namespace ei::policy
