// AdaKV: as SnapKV, the slots of a layer shared out among its kv_heads by where the best scores stand, on a floor
// (head_share.h).
#include "policy/entries.h"

namespace ei::policy {

Entry adakv_entry() {
  const KvOptions preset{.rule = {"adakv"},
                         .share = KvShare::kAdaptive,
                         .gap = -1,
                         .repeat = 0,
                         .pooling = Pooling::kMax,
                         .kernel = 7,
                         .rounding = KvRounding::kReleased};
  return {.method = {.name = "adakv",
                     .summary = "AdaKV: as snapkv, kv_heads share a layer's slots by score",
                     .paper = "Feng et al., 2024, arXiv 2407.11550",
                     .kv = preset},
          .kv = {.name = "adakv",
                 .about = "as snapkv, shared out among kv_heads by score",
                 .preset = preset,
                 .make = make_attention_method}};
}

}  // namespace ei::policy
