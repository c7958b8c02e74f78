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

template <typename Options>
std::vector<Option> spec_flags(const std::vector<policy::OptionSpec<Options>>& table, unsigned commands) {
  std::vector<Option> flags;
  for (const policy::OptionSpec<Options>& spec : table) {
    flags.push_back(method_flag(spec.name, spec.value, spec.help, commands, [&spec](const std::string& value) {
      Options scratch;
      return spec.set(scratch, value);
    }));
    flags.back().research = spec.research;
  }
  return flags;
}

}  // namespace ei::cli
