#include "cli/kv_options.h"

#include "cli/spec_flags.h"
#include "policy/kv/option_table.h"
#include "policy/registry.h"

namespace ei::cli {

namespace {
using policy::KvOptions;

constexpr unsigned kGenerates = kRun | kChat | kInspect | kBench | kPerplexity | kDemo | kEval;

Result<KvOptions> merged(const Settings& settings) {
  const policy::Method* method = policy::find_method(settings.method);
  if (method == nullptr) return make_error(ErrorKind::kUsage, "unknown method '%s'", settings.method.c_str());
  return with_given(settings, policy::kv_option_table(), method->kv);
}
}  // namespace

std::vector<Option> kv_flags() { return spec_flags(policy::kv_option_table(), kGenerates); }

std::vector<std::string> idle_kv_flags(const Settings& settings) {
  const Result<KvOptions> options = merged(settings);
  if (!options.ok()) return {};
  return idle_options(settings, policy::kv_option_table(), *options);
}

Result<KvOptions> kv_options(const Settings& settings) {
  if (const std::vector<std::string> idle = idle_kv_flags(settings); !idle.empty()) {
    return make_error(ErrorKind::kUsage,
                      "--%s has no meaning while the whole KV cache is kept; give --kv-policy latent as well",
                      idle.front().c_str());
  }
  EI_ASSIGN_OR_RETURN(const KvOptions options, merged(settings));
  EI_RETURN_IF_ERROR(policy::validate(options));
  return options;
}

}  // namespace ei::cli
