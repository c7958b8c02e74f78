// Knorm (Devoto et al., 2024): keys of small length get much attention, so the slots of the shortest keys stay. Needs
// no queries.
#include "policy/entries.h"

namespace ei::policy {
namespace {

class KnormMethod : public KvMethod {
 public:
  using KvMethod::KvMethod;

 protected:
  QuerySource scored_queries() const override { return QuerySource::kNone; }
  KeyMeasure scored_keys() const override { return KeyMeasure::kNorm; }
};

std::unique_ptr<KvMethod> make_knorm_method(const KvOptions& options, const KvShape& shape) {
  return std::make_unique<KnormMethod>(options, shape);
}

}  // namespace

Entry knorm_entry() {
  const KvOptions preset{.rule = {"knorm"}, .gap = -1, .kernel = 1};
  return {.method = {.name = "knorm",
                     .summary = "Knorm: the slots of the shortest keys",
                     .paper = "Devoto et al., 2024, arXiv 2406.11430",
                     .changes = "the last 32 slots stay, again every --kv-repeat generated tokens",
                     .kv = preset},
          .kv = {.name = "knorm",
                 .about = "the shortest keys",
                 .preset = preset,
                 .make = make_knorm_method,
                 .scores_attention = false}};
}

}  // namespace ei::policy
