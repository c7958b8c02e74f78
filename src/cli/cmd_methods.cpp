// methods: what --method takes, where it comes from, what it measures and where it differs from its paper.
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "policy/method_needs.h"
#include "policy/registry.h"

namespace ei::cli {

namespace {
std::string table() {
  std::string lines;
  const auto line = [&](const char* label, std::string_view text) {
    if (!text.empty()) lines += str_format("    %-9s%s\n", label, std::string(text).c_str());
  };
  for (const policy::Method& method : policy::methods()) {
    lines += str_format("%s\n    %s\n", std::string(method.name).c_str(), std::string(method.summary).c_str());
    line("paper", method.paper);
    line("measures", policy::needs_text(method));
    line("changed", method.changes);
  }
  return lines;
}

std::string to_json() {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const policy::Method& method : policy::methods()) {
    list.push_back({{"name", method.name},
                    {"summary", method.summary},
                    {"paper", method.paper},
                    {"measures", policy::needs_text(method)},
                    {"changed", method.changes}});
  }
  return list.dump() + "\n";
}
}  // namespace

Result<int> command_methods(const CommandContext& context) {
  return context.console.print(context.settings.json ? to_json() : table()) ? 0 : exit_code(ErrorKind::kRuntime);
}

}  // namespace ei::cli
