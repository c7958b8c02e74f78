// What one session did, for timings on the screen, `--json` and benchmarks.
#pragma once

#include <cstdint>

#include "model/config.h"

namespace ei {

struct SessionStats {
  int64_t prompt_tokens = 0;     // tokens fed through prefill
  int64_t generated_tokens = 0;  // tokens fed through decode
  double prompt_s = 0;
  double decode_s = 0;
  // Query-key pairs of prefill attention, per kv_head and layer summed: computed, and what dense causal attention
  // costs.
  double pairs = 0;
  double pairs_dense = 0;
  // Of prompt_s.
  double profile_s = 0;
  double plan_s = 0;
  double attention_s = 0;
  double matmul_s = 0;
  // KV compression.
  int64_t compressions = 0;
  int64_t evicted = 0;            // slots dropped, over all layers and kv_heads
  double compress_s = 0;          // of decode_s, or of prompt_s where the end of a prompt compressed
  int64_t compressed_tokens = 0;  // of generated_tokens: fed when the cache had been compressed
  double compressed_s = 0;        // of decode_s: theirs, without compress_s
  double full_s = 0;              // of decode_s: the tokens before, likewise
  int64_t paged_tokens = 0;       // of generated_tokens: read chosen pages of the cache

  double density() const { return pairs_dense > 0 ? pairs / pairs_dense : 1.0; }
};

// Query-key pairs of dense causal attention of `tokens` rows behind `first` others: of one kv_head with a window (0:
// none), and of all layers and kv_heads.
double causal_pairs(int64_t first, int64_t tokens, int64_t window);
double dense_pairs(const model::Config& config, int64_t first, int64_t tokens);

}  // namespace ei
