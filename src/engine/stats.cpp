#include "engine/stats.h"

namespace ei {

double causal_pairs(int64_t first, int64_t tokens, int64_t window) {
  // Row p sees p + 1 keys, or `window` once p + 1 exceeds it.
  const auto triangle = [window](int64_t rows) {
    const auto n = static_cast<double>(rows);
    if (window == 0 || rows <= window) return n * (n + 1) / 2;
    const auto w = static_cast<double>(window);
    return w * (w + 1) / 2 + (n - w) * w;
  };
  return triangle(first + tokens) - triangle(first);
}

double dense_pairs(const model::Config& config, int64_t first, int64_t tokens) {
  double pairs = 0;
  for (const model::LayerFacts& facts : config.per_layer)
    pairs += causal_pairs(first, tokens, facts.window) * config.kv_heads;
  return pairs;
}

}  // namespace ei
