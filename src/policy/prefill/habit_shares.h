// Shares of a text as habit takes them, with their bend at 32768 tokens, which was chosen on one model of 16 kv_heads
// (docs/notes/selection.md). Growth, level and fixed read their options too; the entropy rule reads none of them.
#pragma once

#include <cstdint>

#include "policy/prefill/options.h"

namespace ei::policy {

// Of `tokens` tokens, each beyond 32768 counts as `further` tokens.
int64_t weighed_tokens(int64_t tokens, double further);

// --early-share: at least this many tokens are read in a layer below layer_skip that is not dense.
int64_t early_tokens(const PrefillOptions& options, int32_t layer, int64_t before);

// --candidate-share: tokens that a diffuse kv_head rates, a share of the text, less of a long one, and no fewer than
// `rated`; 0: all.
int64_t candidate_tokens(const PrefillOptions& options, int32_t segment, int64_t rated);

}  // namespace ei::policy
