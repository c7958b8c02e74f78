#include "api/method_text.h"

#include <algorithm>

#include "policy/kv/option_table.h"
#include "policy/prefill/option_table.h"

namespace ei::api {

namespace {
bool is_known(std::string_view name) {
  const auto named = [&](const auto& spec) { return spec.name == name; };
  const auto& prefill = policy::prefill_option_table();
  const auto& kv = policy::kv_option_table();
  return name == policy::kPrefillPolicy || std::any_of(prefill.begin(), prefill.end(), named) ||
         std::any_of(kv.begin(), kv.end(), named);
}
}  // namespace

Result<std::map<std::string, std::string>> method_options(std::string_view text) {
  std::map<std::string, std::string> options;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    if (part.empty()) continue;
    const size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      return make_error(ErrorKind::kUsage, "options of a method are name=value, not '%s'", std::string(part).c_str());
    }
    const std::string name(part.substr(0, equals));
    if (!is_known(name)) return make_error(ErrorKind::kUsage, "no method has an option '%s'", name.c_str());
    options[name] = part.substr(equals + 1);
  }
  return options;
}

}  // namespace ei::api
