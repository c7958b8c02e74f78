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

// A number of slots alone is too few for a long text: 1 024 lose six times as much of 128k tokens as a fifth of them.
// Up to half of them go to keys unlike the others: what the next question asks for, no query so far looks at. A head
// whose attention spreads needs them for itself.
KvOptions latent_preset() {
  return {
      .rule = KvRule::kLatent, .gap = 64, .key_share = 0.5, .attended = 2, .budget_share = 0.1, .budget_base = 1024};
}

std::unique_ptr<KvMethod> make_attention_method(const KvOptions& options, const KvShape& shape) {
  return std::make_unique<AttentionMethod>(options, shape);
}

Entry latent_entry() {
  return {.kv = {.name = KvRule::kLatent.name,
                 .about = "wait, then keep what the last queries attend to",
                 .preset = latent_preset(),
                 .make = make_attention_method}};
}

}  // namespace ei::policy
