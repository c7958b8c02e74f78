// H2O (Zhang et al., 2023): heavy hitters, the slots that have got most attention from all queries so far, and as many
// recent ones. Sums over all queries would cost attention a second time; here they are estimated from queries sampled
// evenly over the text, and are exact when --kv-samples covers it.
#include "policy/entries.h"

namespace ei::policy {

Entry h2o_entry() {
  const KvOptions preset{.rule = {"h2o"}, .gap = -1, .window = 512, .kernel = 1, .queries = QuerySource::kSampled};
  return {
      .method =
          {.name = "h2o",
           .summary = "H2O: dense prefill, then the slots with most attention from all queries, and the recent",
           .paper = "Zhang et al., 2023, arXiv 2306.14048",
           .changes =
               "no running sums: each compression adds up the attention of sampled queries over what is left "
               "(all queries when --kv-samples covers the text), the mean over the heads of a group; as many recent "
               "slots as --kv-window says, 512, half of the default budget, whatever the budget",
           .kv = preset},
      .kv = {.name = "h2o",
             .about = "by the attention of queries over the whole text",
             .preset = preset,
             .make = make_attention_method}};
}

}  // namespace ei::policy
