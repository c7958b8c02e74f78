// One option of a method, declared once: flags, environment, config file, JSON, --help, validation and docs/options.md
// come from these.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/parse.h"
#include "base/result.h"

namespace ei::policy {

using OptionValue = std::variant<int64_t, double, bool, std::string_view, std::string>;

template <typename Options>
struct OptionSpec {
  std::string_view name;    // "base-budget": --base-budget, EI_ARG_BASE_BUDGET, the key of a config file and of JSON
  std::string_view symbol;  // what the paper calls it; empty: nothing
  std::string_view value;   // what the value is called in --help
  std::string_view help;
  bool research = false;                                          // left out of the first page of --help
  std::function<bool(const Options&)> read;                       // does a method with these options read it?
  std::function<Status(Options&, const std::string& value)> set;  // the error says what is wrong with the value
  std::function<OptionValue(const Options&)> get;
  std::function<Status(const Options&)> check;  // is the value one that set() would have taken? Empty: any is
  std::vector<std::string_view> choices{};      // of a name among several: all of them
  std::string range{};  // what a value may be: "whole, from 1", "number, 0 to 8", "on or off", "name"
};

// As a flag takes it.
inline std::string option_text(const OptionValue& value) {
  if (const auto* whole = std::get_if<int64_t>(&value)) return std::to_string(*whole);
  if (const auto* real = std::get_if<double>(&value)) return str_format("%g", *real);
  if (const auto* on = std::get_if<bool>(&value)) return *on ? "on" : "off";
  if (const auto* word = std::get_if<std::string_view>(&value)) return std::string(*word);
  return std::get<std::string>(value);
}

// Options that were filled in by other hands than set(): the first value out of its range, by name.
template <typename Options>
Status check_ranges(const std::vector<OptionSpec<Options>>& table, const Options& options) {
  for (const OptionSpec<Options>& spec : table) {
    if (!spec.check) continue;
    const Status in_range = spec.check(options);
    if (!in_range.ok())
      return make_error(ErrorKind::kUsage, "%s %s: %s", std::string(spec.name).c_str(),
                        in_range.error().message.c_str(), option_text(spec.get(options)).c_str());
  }
  return {};
}

// What an option is with these options; empty where nothing reads it.
template <typename Options>
std::string option_default(const OptionSpec<Options>& spec, const Options& preset) {
  return spec.read(preset) ? option_text(spec.get(preset)) : std::string();
}

// How a value is read and written. The largest whole number is one that policies can count in 32 bits.
template <typename Options>
struct OptionField {
  std::function<Status(Options&, const std::string&)> set;
  std::function<OptionValue(const Options&)> get;
  std::function<Status(const Options&)> check = {};
  std::vector<std::string_view> choices = {};
  std::string range = {};
};

inline constexpr int64_t kLargestOption = int64_t{1} << 30;

inline Status check_range(double value, double low, double high) {
  if (value >= low && value <= high) return {};
  if (std::isinf(high) || high >= static_cast<double>(kLargestOption))
    return make_error(ErrorKind::kUsage, "must be a number of at least %g", low);
  return make_error(ErrorKind::kUsage, "must lie between %g and %g", low, high);
}

inline std::string range_text(const char* type, double low, double high) {
  return std::isinf(high) ? str_format("%s, from %g", type, low) : str_format("%s, %g to %g", type, low, high);
}

template <typename Options>
OptionField<Options> whole_field(int32_t Options::*field, int64_t low) {
  return {.set = [=](Options& options, const std::string& value) -> Status {
            EI_ASSIGN_OR_RETURN(const int64_t number, parse_whole(value, low, kLargestOption));
            options.*field = static_cast<int32_t>(number);
            return {};
          },
          .get = [=](const Options& options) -> OptionValue { return int64_t{options.*field}; },
          .check =
              [=](const Options& options) {
                return check_range(options.*field, static_cast<double>(low), static_cast<double>(kLargestOption));
              },
          .range = range_text("whole", static_cast<double>(low), INFINITY)};
}

template <typename Options>
OptionField<Options> real_field(double Options::*field, double low, double high) {
  return {.set = [=](Options& options, const std::string& value) -> Status {
            EI_ASSIGN_OR_RETURN(options.*field, parse_real(value, low, high));
            return {};
          },
          .get = [=](const Options& options) -> OptionValue { return options.*field; },
          .check = [=](const Options& options) { return check_range(options.*field, low, high); },
          .range = range_text("number", low, high)};
}

template <typename Options>
OptionField<Options> switch_field(bool Options::*field) {
  return {.set = [=](Options& options, const std::string& value) -> Status {
            EI_ASSIGN_OR_RETURN(options.*field, parse_switch(value));
            return {};
          },
          .get = [=](const Options& options) -> OptionValue { return options.*field; },
          .range = "on or off"};
}

template <typename Options, typename Enum>
OptionField<Options> choice_field(Enum Options::*field, std::vector<std::pair<std::string_view, Enum>> names) {
  const auto set = [=](Options& options, const std::string& value) -> Status {
    const bool two = names.size() == 2;
    std::string known;
    for (const auto& [name, choice] : names) {
      if (name == value) {
        options.*field = choice;
        return {};
      }
      known += (known.empty() ? "" : two ? " nor " : ", ") + std::string(name);
    }
    return make_error(ErrorKind::kUsage, "'%s' is %s %s", value.c_str(), two ? "neither" : "none of", known.c_str());
  };
  const auto get = [=](const Options& options) -> OptionValue {
    for (const auto& [name, choice] : names)
      if (choice == options.*field) return name;
    return std::string_view();
  };
  std::vector<std::string_view> choices;
  choices.reserve(names.size());
  for (const auto& [name, choice] : names) choices.push_back(name);
  return {.set = set, .get = get, .check = {}, .choices = std::move(choices), .range = "name"};
}

}  // namespace ei::policy
