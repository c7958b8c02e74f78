#include "policy/method_needs.h"

namespace ei::policy {
namespace {

constexpr int32_t kSegments = 32;  // of a text long enough to see whether attention is sampled

void add(std::string& text, const std::string& part) { text += (text.empty() ? "" : "; ") + part; }

void add_prefill(const PrefillOptions& options, std::string& text) {
  const auto method = make_prefill_method(for_model(options, 1, 1), {});
  if (method == nullptr) return;
  if (method->reads_midrange()) add(text, "scores of blocks");
  bool samples = false;
  for (int32_t segment = 0; segment < kSegments; ++segment) samples = samples || method->samples(segment);
  if (samples) add(text, "samples of attention while a prompt is read");
}

void add_kv(const KvOptions& options, std::string& text) {
  const auto method = make_kv_method(options, {});
  if (options.read > 0) add(text, "extremes of the keys of pages");
  if (method == nullptr) return;
  const KvNeeds needs = method->needs();
  const std::string entropy = needs.row_entropy ? " and its entropy" : "";
  if (needs.expected) {
    const bool sampled = needs.queries == QuerySource::kSampled;
    add(text, str_format("mean and covariance of %s before their rotation; lengths of values",
                         sampled ? str_format("up to %d sampled queries", options.samples).c_str()
                                 : str_format("the last %d queries", options.window).c_str()));
    return;
  }
  if (needs.accumulated) {
    add(text, "attention of all queries, added up while a text is read" + entropy);
  } else if (needs.queries == QuerySource::kLast) {
    add(text, options.window == 1 ? "attention of the last query" + entropy
                                  : str_format("attention of the last %d queries%s", options.window, entropy.c_str()));
  }
  if (needs.queries == QuerySource::kSampled)
    add(text, str_format("attention of up to %d sampled queries%s", options.samples, entropy.c_str()));
  if (needs.keys == KeyMeasure::kNorm) add(text, "lengths of keys");
  if (needs.keys == KeyMeasure::kCosine) add(text, "directions of keys");
}

}  // namespace

std::string needs_text(const Method& method) {
  std::string text;
  add_prefill(method.prefill, text);
  add_kv(method.kv, text);
  return text.empty() ? "nothing" : text;
}

}  // namespace ei::policy
