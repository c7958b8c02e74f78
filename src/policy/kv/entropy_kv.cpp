// Entropy-guided KV caching (Kim & Jung, Mathematics 13(15):2366, 2025): layers whose attention is spread keep more,
// and inside a layer one set of tokens, chosen by the attention of all heads, is kept for all of them. The mapping from
// entropies to budgets is ours (layer_share.h).
#include "policy/entries.h"

namespace ei::policy {

Entry entropy_kv_entry() {
  const KvOptions preset{.rule = {"entropy-kv"},
                         .gap = -1,
                         .repeat = 0,
                         .kernel = 1,
                         .layers = KvLayers::kEntropy,
                         .granularity = KvGranularity::kLayer};
  return {.method = {.name = "entropy-kv",
                     .summary = "entropy-guided caching: layers of high entropy keep more",
                     .paper = "Kim & Jung, 2025, Mathematics 13(15):2366",
                     .changes = "the mapping from entropies to budgets is ours: theirs was not available",
                     .kv = preset},
          .kv = {.name = "entropy-kv",
                 .about = "once, layers by entropy, one set of tokens a layer",
                 .preset = preset,
                 .make = make_attention_method}};
}

}  // namespace ei::policy
