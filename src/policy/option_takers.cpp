#include "policy/option_takers.h"

#include <algorithm>
#include <set>
#include <vector>

#include "policy/kv/option_table.h"
#include "policy/method_choice.h"
#include "policy/prefill/option_table.h"
#include "policy/registry.h"

namespace ei::policy {
namespace {

std::string listed(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

template <typename Options>
const OptionSpec<Options>* find_spec(const std::vector<OptionSpec<Options>>& table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const auto& one) { return one.name == name; });
  return found == table.end() ? nullptr : &*found;
}

// What an option that is no choice among names may be set to in a trial: whatever a preset has.
template <typename Options>
std::set<std::string> values_of(const OptionSpec<Options>& spec, const std::vector<Options>& presets) {
  std::set<std::string> values;
  for (const Options& preset : presets) values.insert(option_text(spec.get(preset)));
  return values;
}

// "--kv-share adaptive, distinct": options that make one of the presets read `flag` which does not by itself.
template <typename Options>
std::vector<std::string> enablers(const std::vector<OptionSpec<Options>>& table, const OptionSpec<Options>& flag,
                                  const std::vector<Options>& presets) {
  std::vector<std::string> all;
  for (const OptionSpec<Options>& other : table) {
    if (other.name == "kv-policy") continue;  // a whole preset, no change to one
    std::vector<std::string> enabling;
    const auto enables = [&](const std::string& value) {
      return std::any_of(presets.begin(), presets.end(), [&](Options preset) {
        return !flag.read(preset) && other.set(preset, value).ok() && other.read(preset) && flag.read(preset) &&
               validate(preset).ok();
      });
    };
    for (const std::string_view name : other.choices)
      if (enables(std::string(name))) enabling.emplace_back(name);
    if (other.choices.empty())
      for (const std::string& value : values_of(other, presets))
        if (enables(value)) enabling = {std::string(other.value)};
    if (!enabling.empty()) all.push_back("--" + std::string(other.name) + " " + listed(enabling, ", "));
  }
  return all;
}

}  // namespace

std::string takers_of(std::string_view flag) {
  const auto* of_prompts = find_spec(prefill_option_table(), flag);
  const auto* of_caches = find_spec(kv_option_table(), flag);
  std::vector<std::string> names;
  std::vector<PrefillOptions> prefills;
  std::vector<KvOptions> caches;
  for (const Method& method : methods()) {
    const bool sparse = method.prefill.rule != PrefillRule::kDense;
    if (sparse) prefills.push_back(method.prefill);
    caches.push_back(method.kv);
    const bool reads_prompts =
        sparse && (flag == kPrefillPolicy || (of_prompts != nullptr && of_prompts->read(method.prefill)));
    if (reads_prompts || (of_caches != nullptr && of_caches->read(method.kv))) names.emplace_back(method.name);
  }
  std::vector<std::string> options;
  if (of_prompts != nullptr) options = enablers(prefill_option_table(), *of_prompts, prefills);
  if (of_caches != nullptr) options = enablers(kv_option_table(), *of_caches, caches);
  const std::string takers = names.empty() ? "" : "--method " + listed(names, ", ");
  if (options.empty()) return takers;
  return takers + (takers.empty() ? "" : ", or with ") + listed(options, " or ");
}

}  // namespace ei::policy
