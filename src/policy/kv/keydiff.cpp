// KeyDiff (Park et al., 2025): keys unlike all others are the ones that are looked for, so the slots of the smallest
// cosine to the mean direction stay. Needs no queries.
#include "policy/entries.h"

namespace ei::policy {
namespace {

class KeydiffMethod : public KvMethod {
 public:
  using KvMethod::KvMethod;

 protected:
  QuerySource scored_queries() const override { return QuerySource::kNone; }
  KeyMeasure scored_keys() const override { return KeyMeasure::kCosine; }
};

std::unique_ptr<KvMethod> make_keydiff_method(const KvOptions& options, const KvShape& shape) {
  return std::make_unique<KeydiffMethod>(options, shape);
}

}  // namespace

Entry keydiff_entry() {
  const KvOptions preset{.rule = {"keydiff"}, .gap = -1, .kernel = 1};
  return {
      .method = {.name = "keydiff",
                 .summary = "KeyDiff: the slots of the keys least like the others",
                 .paper = "Park et al., 2025, arXiv 2504.15364",
                 .changes =
                     "all at once behind the prompt, the last 32 slots stay, again every --kv-repeat generated tokens",
                 .kv = preset},
      .kv = {.name = "keydiff",
             .about = "the keys least like the others",
             .preset = preset,
             .make = make_keydiff_method,
             .scores_attention = false}};
}

}  // namespace ei::policy
