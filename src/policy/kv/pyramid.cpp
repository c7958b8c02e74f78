// PyramidKV (Cai et al., 2024): what the last eight queries attend to, the first layers keeping more than the last
// (layer_share.h). And with AdaKV's shares of the kv_heads inside a layer, as AdaKV's authors released it: Ada-Pyramid.
#include "policy/entries.h"

namespace ei::policy {

Entry pyramid_entry() {
  const KvOptions preset{.rule = {"pyramid"},
                         .gap = -1,
                         .window = 8,
                         .repeat = 0,
                         .pooling = Pooling::kMax,
                         .kernel = 7,
                         .layers = KvLayers::kPyramid};
  return {.method = {.name = "pyramid",
                     .summary = "PyramidKV: as snapkv, the first layers keep more",
                     .paper = "Cai et al., 2024, arXiv 2406.02069",
                     .changes = "budgets sum exactly; the heads of a group choose together",
                     .kv = preset},
          .kv = {.name = "pyramid",
                 .about = "as snapkv, the first layers keep more",
                 .preset = preset,
                 .make = make_attention_method}};
}

Entry ada_pyramid_entry() {
  const KvOptions preset{.rule = {"ada-pyramid"},
                         .share = KvShare::kAdaptive,
                         .gap = -1,
                         .repeat = 0,
                         .pooling = Pooling::kMax,
                         .kernel = 7,
                         .layers = KvLayers::kPyramid,
                         .rounding = KvRounding::kReleased};
  return {.method = {.name = "ada-pyramid",
                     .summary = "Ada-Pyramid: as adakv, the first layers keep more",
                     .paper = "Feng et al., 2024, arXiv 2407.11550",
                     .changes = "where everything fits, everything stays",
                     .kv = preset},
          .kv = {.name = "ada-pyramid",
                 .about = "as adakv, the first layers keep more",
                 .preset = preset,
                 .make = make_attention_method}};
}

}  // namespace ei::policy
