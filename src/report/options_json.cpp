#include "report/options_json.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <variant>

#include "policy/kv/option_table.h"
#include "policy/prefill/option_table.h"

namespace ei::report {

nlohmann::ordered_json rounded(double value, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*g", digits, value);
  return std::isfinite(value) ? nlohmann::ordered_json(std::strtod(text, nullptr)) : nlohmann::ordered_json(nullptr);
}

namespace {
nlohmann::ordered_json value_json(const policy::OptionValue& value) {
  return std::visit([](const auto& one) { return nlohmann::ordered_json(one); }, value);
}

// What the options are where something reads them.
template <typename Options>
nlohmann::ordered_json table_json(const std::vector<policy::OptionSpec<Options>>& table, const Options& options) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const policy::OptionSpec<Options>& spec : table)
    if (spec.read(options)) object[std::string(spec.name)] = value_json(spec.get(options));
  return object;
}
}  // namespace

nlohmann::ordered_json prefill_json(const policy::PrefillOptions& options) {
  return table_json(policy::prefill_option_table(), options);
}

nlohmann::ordered_json kv_json(const policy::KvOptions& options) {
  return table_json(policy::kv_option_table(), options);
}

}  // namespace ei::report
