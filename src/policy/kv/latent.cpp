// EntropyInfer's latent compression: wait for generated tokens, then keep what they and the last of the prompt attend
// to; again and again. The scores are the attention itself; the other methods by attention differ in their stages.
#include "policy/entries.h"

namespace ei::policy {
namespace {

class AttentionMethod : public KvMethod {
 public:
  using KvMethod::KvMethod;

 protected:
  QuerySource scored_queries() const override { return options().queries; }
};

}  // namespace

std::unique_ptr<KvMethod> make_attention_method(const KvOptions& options, const KvShape& shape) {
  return std::make_unique<AttentionMethod>(options, shape);
}

Entry latent_entry() {
  return {.kv = {.name = KvRule::kLatent.name,
                 .about = "wait, then keep what the last queries attend to",
                 .preset = {.rule = KvRule::kLatent, .gap = 64},
                 .make = make_attention_method}};
}

}  // namespace ei::policy
