// TOVA (Oren et al., 2024): what the last query attends to, in the mean over the heads of a layer, which all keep the
// same tokens. The authors drop one token with every generated one; here many at once, every --kv-repeat tokens.
#include "policy/entries.h"

namespace ei::policy {

Entry tova_entry() {
  const KvOptions preset{.rule = {"tova"}, .gap = -1, .window = 1, .kernel = 1, .granularity = KvGranularity::kLayer};
  return {.method = {.name = "tova",
                     .summary = "TOVA: what the last query attends to, alike in all heads",
                     .paper = "Oren et al., 2024, arXiv 2401.06104",
                     .changes = "many slots at once instead of one a token",
                     .kv = preset},
          .kv = {.name = "tova", .about = "by the last query", .preset = preset, .make = make_attention_method}};
}

}  // namespace ei::policy
