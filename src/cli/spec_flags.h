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

// The options with everything that was given on top, meaningful or not.
template <typename Options>
Result<Options> with_given(const Settings& settings, const std::vector<policy::OptionSpec<Options>>& table,
                           Options options) {
  for (const policy::OptionSpec<Options>& spec : table)
    if (const std::string* value = given_option(settings, spec.name)) EI_RETURN_IF_ERROR(spec.set(options, *value));
  return options;
}

// Names of the options that were given and that nothing with these options reads.
template <typename Options>
std::vector<std::string> idle_options(const Settings& settings, const std::vector<policy::OptionSpec<Options>>& table,
                                      const Options& options) {
  std::vector<std::string> idle;
  for (const policy::OptionSpec<Options>& spec : table)
    if (given_option(settings, spec.name) != nullptr && !spec.read(options)) idle.emplace_back(spec.name);
  return idle;
}

}  // namespace ei::cli
