#include "policy/method_choice.h"

#include <algorithm>

#include "policy/kv/option_table.h"
#include "policy/option_takers.h"
#include "policy/prefill/option_table.h"
#include "policy/registry.h"

namespace ei::policy {

namespace {
Result<const Method*> find(const MethodChoice& choice) {
  const Method* method = find_method(choice.method);
  if (method == nullptr) return make_error(ErrorKind::kUsage, "unknown method '%s'", choice.method.c_str());
  return method;
}

// The options with everything that was given on top, meaningful or not.
template <typename Options>
Result<Options> with_given(const MethodChoice& choice, const std::vector<OptionSpec<Options>>& table, Options options) {
  for (const OptionSpec<Options>& spec : table)
    if (const std::string* value = choice.given(spec.name)) EI_RETURN_IF_ERROR(spec.set(options, *value));
  return options;
}

// Names of the options that were given and that nothing with these options reads.
template <typename Options>
std::vector<std::string> idle_options(const MethodChoice& choice, const std::vector<OptionSpec<Options>>& table,
                                      const Options& options) {
  std::vector<std::string> idle;
  for (const OptionSpec<Options>& spec : table)
    if (choice.given(spec.name) != nullptr && !spec.read(options)) idle.emplace_back(spec.name);
  return idle;
}

// The preset of the method, full or sparse as the policy says.
Result<PrefillOptions> chosen_policy(const MethodChoice& choice) {
  EI_ASSIGN_OR_RETURN(const Method* method, find(choice));
  const std::string* value = choice.given(kPrefillPolicy);
  if (value == nullptr) return method->prefill;
  EI_RETURN_IF_ERROR(check_prefill_policy(*value));
  if (*value == "full") return PrefillOptions{};
  const bool dense = method->prefill.rule == PrefillRule::kDense;
  return dense ? find_method("entropyinfer")->prefill : method->prefill;
}

Result<KvOptions> merged_kv(const MethodChoice& choice) {
  EI_ASSIGN_OR_RETURN(const Method* method, find(choice));
  return with_given(choice, kv_option_table(), method->kv);
}
}  // namespace

const std::string* MethodChoice::given(std::string_view name) const {
  const auto found = options.find(std::string(name));
  return found == options.end() ? nullptr : &found->second;
}

void give_on_top(MethodChoice& choice, const std::map<std::string, std::string>& options) {
  const auto tokens = options.find("base-budget");
  if (options.contains("density") || options.contains("density-base")) choice.options.erase("base-budget");
  if (tokens != options.end() && tokens->second != "0") {
    choice.options.erase("density");
    choice.options.erase("density-base");
  }
  for (const auto& [name, value] : options) choice.options[name] = value;
}

Status check_prefill_policy(const std::string& value) {
  if (value == "full" || value == "sparse") return {};
  return make_error(ErrorKind::kUsage, "'%s' is neither full nor sparse", value.c_str());
}

bool reads_sparsely(const MethodChoice& choice) {
  const Result<PrefillOptions> options = chosen_policy(choice);
  return options.ok() && options->rule != PrefillRule::kDense;
}

std::string cause_of_full(const MethodChoice& choice, const std::string& methods) {
  const std::string* value = choice.given(kPrefillPolicy);
  return value != nullptr && *value == "full" ? "--prefill-policy full" : "--method " + methods;
}

Error no_meaning(std::string_view flag, const std::string& with) {
  const std::string takers = takers_of(flag);
  return make_error(ErrorKind::kUsage, "--%s has no meaning with %s%s%s", std::string(flag).c_str(), with.c_str(),
                    takers.empty() ? "" : "; it goes with ", takers.c_str());
}

Result<PrefillOptions> prefill_options(const MethodChoice& choice) {
  EI_ASSIGN_OR_RETURN(const PrefillOptions preset, chosen_policy(choice));
  const auto& table = prefill_option_table();
  if (preset.rule == PrefillRule::kDense) {
    const std::vector<std::string> idle = idle_options(choice, table, preset);
    if (!idle.empty()) return no_meaning(idle.front(), cause_of_full(choice, choice.method));
    return preset;
  }
  EI_ASSIGN_OR_RETURN(const PrefillOptions options, with_given(choice, table, preset));
  if (const std::vector<std::string> idle = idle_options(choice, table, options); !idle.empty()) {
    PrefillOptions ranked = options;
    ranked.select = BlockRank::kAdaptive;
    const std::vector<std::string> by_rule = idle_options(choice, table, ranked);
    const bool rule = std::find(by_rule.begin(), by_rule.end(), idle.front()) != by_rule.end();
    return no_meaning(idle.front(), rule ? "--budget-rule " + std::string(options.rule.name)
                                         : std::string("--select ") + block_rank_name(options.select));
  }
  // A base budget takes the density's place: one of the two would be dropped without a word.
  for (const char* density : {"density", "density-base"})
    if (options.base_budget > 0 && choice.given("base-budget") != nullptr && choice.given(density) != nullptr)
      return make_error(ErrorKind::kUsage, "--%s and --base-budget exclude each other: both say how much is read",
                        density);
  EI_RETURN_IF_ERROR(validate(options));
  return options;
}

std::vector<std::string> idle_kv_options(const MethodChoice& choice) {
  const Result<KvOptions> options = merged_kv(choice);
  if (!options.ok()) return {};
  return idle_options(choice, kv_option_table(), *options);
}

Result<KvOptions> kv_options(const MethodChoice& choice) {
  if (const std::vector<std::string> idle = idle_kv_options(choice); !idle.empty()) {
    EI_ASSIGN_OR_RETURN(const KvOptions without, merged_kv(choice));
    return no_meaning(idle.front(), "--kv-policy " + std::string(without.rule.name));
  }
  EI_ASSIGN_OR_RETURN(const KvOptions options, merged_kv(choice));
  EI_RETURN_IF_ERROR(validate(options));
  return options;
}

std::string options_text(const MethodChoice& choice) {
  std::string text;
  for (const auto& [name, value] : choice.options) text += (text.empty() ? "" : ",") + name + "=" + value;
  return text;
}

}  // namespace ei::policy
