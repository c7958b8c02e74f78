// Entries of the command line's option table, made of what a method declares (policy/option_spec.h).
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "cli/options.h"
#include "policy/option_spec.h"

namespace ei::cli {

// What was given for an option of a method; null: nothing.
inline const std::string* given_option(const Settings& settings, std::string_view name) {
  const auto found = settings.method_options.find(std::string(name));
  return found == settings.method_options.end() ? nullptr : &found->second;
}

// A flag that keeps its value for the method to read; `check` says whether it can be read.
inline Option method_flag(std::string_view name, std::string_view value, std::string_view help, unsigned commands,
                          std::function<Status(const std::string&)> check) {
  static std::deque<std::string> spellings;  // options hold views
  const std::string key(name);
  Binding binding;
  binding.set = [key, check = std::move(check)](Settings& settings, const std::string& text) -> Status {
    EI_RETURN_IF_ERROR(check(text));
    settings.method_options[key] = text;
    return {};
  };
  binding.show = [key](const Settings& settings) {
    const std::string* given = given_option(settings, key);
    return given != nullptr ? *given : std::string();
  };
  return {spellings.emplace_back("--" + key), value, help, commands, std::move(binding)};
}

// The help of an option, what the paper calls it, and what it is by default.
template <typename Options>
std::string described(const policy::OptionSpec<Options>& spec, const Options& preset) {
  std::string text(spec.help);
  const std::string value = policy::option_default(spec, preset);
  if (spec.symbol.empty() && value.empty()) return text;
  text += " (" + std::string(spec.symbol) + (spec.symbol.empty() || value.empty() ? "" : "; ");
  return text + (value.empty() ? "" : "default: " + value) + ")";
}

// `preset`: of the default sparse method.
template <typename Options>
std::vector<Option> spec_flags(const std::vector<policy::OptionSpec<Options>>& table, const Options& preset,
                               unsigned commands) {
  static std::deque<std::string> texts;  // options hold views
  std::vector<Option> flags;
  for (const policy::OptionSpec<Options>& spec : table) {
    const std::string& help = texts.emplace_back(described(spec, preset));
    flags.push_back(method_flag(spec.name, spec.value, help, commands, [&spec](const std::string& value) {
      Options scratch;
      return spec.set(scratch, value);
    }));
    flags.back().research = spec.research;
  }
  return flags;
}

}  // namespace ei::cli
