// Expected attention (Devoto et al., 2025): queries before their rotation are about normally distributed, so what
// future ones will attend to has a closed form (kv/expected_attention.h). The slots that are expected to give most, by
// attention times the length of the value, stay. Needs no question.
#include "policy/entries.h"

namespace ei::policy {
namespace {

class ExpectedMethod : public KvMethod {
 public:
  using KvMethod::KvMethod;

 protected:
  QuerySource scored_queries() const override { return options().queries; }
  bool scores_expected() const override { return true; }
};

std::unique_ptr<KvMethod> make_expected_method(const KvOptions& options, const KvShape& shape) {
  return std::make_unique<ExpectedMethod>(options, shape);
}

}  // namespace

Entry expected_entry() {
  const KvOptions preset{.rule = {"expected"},
                         .gap = -1,
                         .window = 1,
                         .repeat = 0,
                         .kernel = 1,
                         .sinks = 4,
                         .queries = QuerySource::kSampled,
                         .samples = 128};
  return {.method = {.name = "expected",
                     .summary = "Expected Attention: what future queries should attend to",
                     .paper = "Devoto et al., 2025, arXiv 2510.00636",
                     .changes = "mean and covariance of sampled queries, not of all",
                     .kv = preset},
          .kv = {.name = "expected",
                 .about = "what future queries will attend to, by the statistics of past ones",
                 .preset = preset,
                 .make = make_expected_method}};
}

}  // namespace ei::policy
