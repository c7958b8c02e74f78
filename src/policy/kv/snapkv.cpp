// SnapKV: once, when the prompt has been read, keep what its end attends to. As published for LongBench: max pooling
// over 7 slots.
#include "policy/entries.h"

namespace ei::policy {

Entry snapkv_entry() {
  const KvOptions preset{.rule = {"snapkv"}, .gap = -1, .repeat = 0, .pooling = Pooling::kMax, .kernel = 7};
  return {.method = {.name = "snapkv",
                     .summary = "SnapKV: what the end of the prompt attends to, once",
                     .paper = "Li et al., 2024, arXiv 2404.14469",
                     .changes = "the heads of a group choose together; --kv-granularity head: each for itself",
                     .kv = preset},
          .kv = {.name = "snapkv",
                 .about = "once, by the end of the prompt",
                 .preset = preset,
                 .make = make_attention_method}};
}

}  // namespace ei::policy
