// Attention of random inputs by any variant: for tests.
#pragma once

#include <cmath>
#include <vector>

#include "kernels/attention/attention.h"
#include "support/random_kv.h"

namespace ei::kernels {

inline std::vector<float> result_of(const AttentionVariant& variant, RandomAttention& input, int workers,
                                    const BlockPlan* plan = nullptr) {
  std::vector<float> out(static_cast<size_t>(input.shape().tokens * input.width()), NAN);
  AttentionParams params = input.params(out.data());
  params.plan = plan;
  run_attention(variant, params, workers);
  return out;
}

inline std::vector<const AttentionVariant*> usable_variants(const AttentionShape& shape) {
  std::vector<const AttentionVariant*> found;
  for (const AttentionVariant* variant : attention_variants()) {
    if (variant->usable() && variant->accepts(shape.key_type, shape.value_type)) found.push_back(variant);
  }
  return found;
}

}  // namespace ei::kernels
