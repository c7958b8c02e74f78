#include "cli/kv_options.h"

#include "cli/method_options.h"
#include "cli/spec_flags.h"
#include "policy/kv/option_table.h"
#include "policy/method_choice.h"
#include "policy/registry.h"

namespace ei::cli {

namespace {
constexpr unsigned kGenerates = kRun | kChat | kServe | kInspect | kBench | kPerplexity | kDemo | kEval;
}

std::vector<Option> kv_flags() {
  return spec_flags(policy::kv_option_table(), policy::find_method("entropyinfer")->kv, kGenerates);
}

std::vector<std::string> idle_kv_flags(const Settings& settings) {
  return policy::idle_kv_options(method_choice(settings));
}

Result<bool> acts_on_answers_alone(const Settings& settings) {
  EI_ASSIGN_OR_RETURN(const policy::PrefillOptions prefill, prefill_options(settings));
  EI_ASSIGN_OR_RETURN(const policy::KvOptions kv, kv_options(settings));
  return prefill.rule == policy::PrefillRule::kDense && (kv.rule != policy::KvRule::kKeepAll || kv.read > 0);
}

Status check_acts_on(const Settings& settings, int64_t tokens, const char* flag, bool generates) {
  EI_ASSIGN_OR_RETURN(const policy::PrefillOptions prefill, prefill_options(settings));
  EI_ASSIGN_OR_RETURN(const policy::KvOptions kv, kv_options(settings));
  const int64_t whole = int64_t{prefill.threshold} + (prefill.last_dense ? prefill.segment : 0);
  if (prefill.rule == policy::PrefillRule::kDense || tokens > whole) return {};
  if (generates && (kv.rule != policy::KvRule::kKeepAll || kv.read > 0)) return {};
  return make_error(ErrorKind::kUsage,
                    "method '%s' never acts on %lld tokens (%s), so there is nothing to compare: the first %d of a "
                    "text (--threshold)%s are always read whole",
                    settings.method.c_str(), static_cast<long long>(tokens), flag, prefill.threshold,
                    prefill.last_dense ? str_format(" and the last segment of %d", prefill.segment).c_str() : "");
}

Result<bool> leaves_nothing_out(const Settings& settings) {
  EI_ASSIGN_OR_RETURN(const policy::PrefillOptions prefill, prefill_options(settings));
  EI_ASSIGN_OR_RETURN(const policy::KvOptions kv, kv_options(settings));
  return prefill.rule == policy::PrefillRule::kDense && kv.rule == policy::KvRule::kKeepAll && kv.read == 0;
}

Result<policy::KvOptions> kv_options(const Settings& settings) { return policy::kv_options(method_choice(settings)); }

}  // namespace ei::cli
