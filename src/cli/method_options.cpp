#include "cli/method_options.h"

#include "cli/kv_options.h"
#include "cli/spec_flags.h"
#include "policy/prefill/option_table.h"
#include "policy/registry.h"

namespace ei::cli {

namespace {
constexpr unsigned kReadsPrompts = kRun | kChat | kServe | kInspect | kBench | kPerplexity | kEval | kDemo;
}

policy::MethodChoice method_choice(const Settings& settings) {
  return {.method = settings.method, .options = settings.method_options};
}

std::vector<Option> prefill_flags() {
  std::vector<Option> flags =
      spec_flags(policy::prefill_option_table(), policy::find_method("entropyinfer")->prefill, kReadsPrompts);
  flags.insert(flags.begin(),
               method_flag(policy::kPrefillPolicy, "NAME", "prompt: full (all is read) or sparse (chosen blocks)",
                           kReadsPrompts, policy::check_prefill_policy));
  return flags;
}

Result<policy::PrefillOptions> prefill_options(const Settings& settings) {
  return policy::prefill_options(method_choice(settings));
}

Settings settings_for_method(const Settings& settings, std::string_view method) {
  Settings own = settings;
  own.method = method;
  for (const std::string& idle : idle_kv_flags(own)) own.method_options.erase(idle);
  if (policy::reads_sparsely(method_choice(own))) return own;
  for (const auto& spec : policy::prefill_option_table()) own.method_options.erase(std::string(spec.name));
  return own;
}

Status check_method_options(const Settings& settings, const std::vector<std::string>& methods) {
  std::map<std::string, std::string> unused = settings.method_options;
  for (const std::string& method : methods) {
    const Settings own = settings_for_method(settings, method);
    for (const auto& [name, value] : own.method_options) unused.erase(name);
    const Result<policy::PrefillOptions> options = prefill_options(own);
    if (!options.ok()) return options.error();
    const Result<policy::KvOptions> kv = kv_options(own);
    if (!kv.ok()) return kv.error();
  }
  if (unused.empty()) return {};
  std::string names;
  for (const std::string& method : methods) names += (names.empty() ? "" : ",") + method;
  return policy::no_meaning(unused.begin()->first, policy::cause_of_full(method_choice(settings), names));
}

std::string method_options_text(const Settings& settings) { return policy::options_text(method_choice(settings)); }

}  // namespace ei::cli
