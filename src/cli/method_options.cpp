#include "cli/method_options.h"

#include <algorithm>

#include "cli/kv_options.h"
#include "cli/spec_flags.h"
#include "policy/prefill/option_table.h"
#include "policy/registry.h"

namespace ei::cli {

namespace {
using policy::PrefillOptions;
using policy::PrefillRule;

constexpr unsigned kReadsPrompts = kRun | kChat | kInspect | kBench | kPerplexity | kEval | kDemo;
constexpr std::string_view kPolicy = "prefill-policy";

Status check_policy(const std::string& value) {
  if (value == "full" || value == "sparse") return {};
  return make_error(ErrorKind::kUsage, "'%s' is neither full nor sparse", value.c_str());
}

// The preset of the method, full or sparse as --prefill-policy says.
Result<PrefillOptions> chosen_policy(const Settings& settings) {
  const policy::Method* method = policy::find_method(settings.method);
  if (method == nullptr) return make_error(ErrorKind::kUsage, "unknown method '%s'", settings.method.c_str());
  const std::string* value = given_option(settings, kPolicy);
  if (value == nullptr) return method->prefill;
  EI_RETURN_IF_ERROR(check_policy(*value));
  if (*value == "full") return PrefillOptions{};
  const bool dense = method->prefill.rule == PrefillRule::kDense;
  return dense ? policy::find_method("entropyinfer")->prefill : method->prefill;
}

bool reads_sparsely(const Settings& settings) {
  const Result<PrefillOptions> options = chosen_policy(settings);
  return options.ok() && options->rule != PrefillRule::kDense;
}

// What makes a prompt be read in full: the policy where it was given, else the methods.
std::string cause_of_full(const Settings& settings, const std::string& methods) {
  const std::string* value = given_option(settings, kPolicy);
  return value != nullptr && *value == "full" ? "--prefill-policy full" : "--method " + methods;
}

Error no_meaning(std::string_view flag, const std::string& with) {
  return make_error(ErrorKind::kUsage, "--%s has no meaning with %s", std::string(flag).c_str(), with.c_str());
}
}  // namespace

std::vector<Option> prefill_flags() {
  std::vector<Option> flags = spec_flags(policy::prefill_option_table(), kReadsPrompts);
  flags.insert(flags.begin(), method_flag(kPolicy, "NAME", "prompt: full (all is read) or sparse (chosen blocks)",
                                          kReadsPrompts, check_policy));
  return flags;
}

Result<PrefillOptions> prefill_options(const Settings& settings) {
  EI_ASSIGN_OR_RETURN(const PrefillOptions preset, chosen_policy(settings));
  const auto& table = policy::prefill_option_table();
  if (preset.rule == PrefillRule::kDense) {
    const std::vector<std::string> idle = idle_options(settings, table, preset);
    if (!idle.empty()) return no_meaning(idle.front(), cause_of_full(settings, settings.method));
    return preset;
  }
  EI_ASSIGN_OR_RETURN(const PrefillOptions options, with_given(settings, table, preset));
  if (const std::vector<std::string> idle = idle_options(settings, table, options); !idle.empty()) {
    PrefillOptions ranked = options;
    ranked.select = policy::BlockRank::kAdaptive;
    const std::vector<std::string> by_rule = idle_options(settings, table, ranked);
    const bool rule = std::find(by_rule.begin(), by_rule.end(), idle.front()) != by_rule.end();
    return no_meaning(idle.front(), rule ? "--budget-rule " + std::string(options.rule.name)
                                         : std::string("--select ") + policy::block_rank_name(options.select));
  }
  EI_RETURN_IF_ERROR(policy::validate(options));
  return options;
}

Settings settings_for_method(const Settings& settings, std::string_view method) {
  Settings own = settings;
  own.method = method;
  for (const std::string& idle : idle_kv_flags(own)) own.method_options.erase(idle);
  if (reads_sparsely(own)) return own;
  for (const auto& spec : policy::prefill_option_table()) own.method_options.erase(std::string(spec.name));
  return own;
}

Status check_method_options(const Settings& settings, const std::vector<std::string>& methods) {
  std::map<std::string, std::string> unused = settings.method_options;
  for (const std::string& method : methods) {
    const Settings own = settings_for_method(settings, method);
    for (const auto& [name, value] : own.method_options) unused.erase(name);
    const Result<PrefillOptions> options = prefill_options(own);
    if (!options.ok()) return options.error();
    const Result<policy::KvOptions> kv = kv_options(own);
    if (!kv.ok()) return kv.error();
  }
  if (unused.empty()) return {};
  std::string names;
  for (const std::string& method : methods) names += (names.empty() ? "" : ",") + method;
  return no_meaning(unused.begin()->first, cause_of_full(settings, names));
}

std::string method_options_text(const Settings& settings) {
  std::string text;
  for (const auto& [name, value] : settings.method_options) text += (text.empty() ? "" : ",") + name + "=" + value;
  return text;
}

}  // namespace ei::cli
