// What keys and values say about their slots by themselves, measured where they lie. The contracts are those of
// kv/key_measure.h and kv/expected_attention.h, in fp32; backends that have no such operations leave it to the host.
#pragma once

#include <cstdint>

#include "plan/kv_view.h"

namespace ei::kernels {

// out[h, slot]: the length of the slot's key, or its cosine with the mean of all normalised keys of the kv_head.
struct KeyMeasureParams {
  KvView kv;
  bool cosine = false;
  bool negated = false;  // the other sign, where small measures are worth most
  float* out = nullptr;  // [kv_heads, stride], of shared() or stream memory
  int64_t stride = 0;
};

// out[h, slot] = softmax over slots of (linear[h] . k + sum over j <= i of quadratic[h, i, j] k_i k_j), times |v|.
struct ExpectedScoreParams {
  KvView kv;
  int32_t num_heads = 0;
  const float* linear = nullptr;     // [num_heads, head_dim], stream memory
  const float* quadratic = nullptr;  // [num_heads, head_dim, head_dim], the lower triangle; stream memory
  float* out = nullptr;              // [num_heads, stride], of shared() or stream memory
  int64_t stride = 0;
};

}  // namespace ei::kernels
