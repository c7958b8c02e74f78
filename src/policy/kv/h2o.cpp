// H2O (Zhang et al., 2023): heavy hitters, the slots that have got most attention from all queries so far, and as many
// recent ones. Every query of prompt and answer is added to running sums, which survive compressions with their slots
// (kv/attention_sums.h); that multiplies queries and keys a second time, as attention kernels keep no weights.
// --kv-queries sampled estimates the sums anew at every compression instead, and costs next to nothing.
#include "policy/entries.h"

namespace ei::policy {

Entry h2o_entry() {
  const KvOptions preset{
      .rule = {"h2o"}, .gap = -1, .window = 1, .recent = 0.5, .kernel = 1, .queries = QuerySource::kAll};
  return {.method = {.name = "h2o",
                     .summary = "H2O: what all queries have attended to, and the latest",
                     .paper = "Zhang et al., 2023, arXiv 2306.14048",
                     .changes = "the mean over the heads of a group; many slots go at once instead of one a token",
                     .kv = preset},
          .kv = {.name = "h2o",
                 .about = "by the attention of all queries so far",
                 .preset = preset,
                 .make = make_attention_method}};
}

}  // namespace ei::policy
