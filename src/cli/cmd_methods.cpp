// methods: what --method takes, where it comes from, what it needs and where it differs from its paper.
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "policy/kv/option_table.h"
#include "policy/method_needs.h"
#include "policy/prefill/option_table.h"
#include "policy/registry.h"

namespace ei::cli {

namespace {
std::string_view changes_of(const policy::Method& method) {
  return method.changes.empty() && !method.paper.empty() ? "nothing" : method.changes;
}

std::string table() {
  std::string lines;
  const auto line = [&](const char* label, std::string_view text) {
    if (!text.empty()) lines += str_format("    %-9s%s\n", label, std::string(text).c_str());
  };
  for (const policy::Method& method : policy::methods()) {
    lines += str_format("%s\n    %s\n", std::string(method.name).c_str(), std::string(method.summary).c_str());
    line("paper", method.paper);
    line("needs", policy::needs_text(method));
    line("changed", changes_of(method));
  }
  return lines;
}

std::string to_json() {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const policy::Method& method : policy::methods()) {
    list.push_back({{"name", method.name},
                    {"summary", method.summary},
                    {"paper", method.paper},
                    {"needs", policy::needs_text(method)},
                    {"changed", changes_of(method)}});
  }
  return list.dump() + "\n";
}

template <typename Options>
std::string option_rows(const std::vector<policy::OptionSpec<Options>>& table, const Options& preset) {
  std::string rows;
  for (const policy::OptionSpec<Options>& spec : table)
    rows += str_format("| `--%s %s` | %s | %s | %s | %s |\n", std::string(spec.name).c_str(),
                       std::string(spec.value).c_str(), std::string(spec.symbol).c_str(), spec.range.c_str(),
                       policy::option_default(spec, preset).c_str(), std::string(spec.help).c_str());
  return rows;
}

// docs/options.md.
std::string options_page() {
  const policy::Method& preset = *policy::find_method("entropyinfer");
  const std::string head = "| option | symbol | type, range | default | meaning |\n|---|---|---|---|---|\n";
  return "# Options of methods\n\n"
         "You get: every option that a method reads, what the papers call it, its range, and what it is with\n"
         "`--method entropyinfer` (empty: it is not read). Made by `entropyinfer methods --options`.\n\n"
         "## What of a prompt is read\n\n" +
         head + option_rows(policy::prefill_option_table(), preset.prefill) + "\n## What of the KV cache stays\n\n" +
         head + option_rows(policy::kv_option_table(), preset.kv);
}
}  // namespace

Result<int> command_methods(const CommandContext& context) {
  const Settings& settings = context.settings;
  const std::string text = settings.list_options ? options_page() : settings.json ? to_json() : table();
  return context.console.print(text) ? 0 : exit_code(ErrorKind::kRuntime);
}

}  // namespace ei::cli
