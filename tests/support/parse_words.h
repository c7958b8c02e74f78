// A command line as a list of words, parsed: for tests.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "cli/parse.h"
#include "policy/option_takers.h"

namespace ei::cli {

using Words = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;

inline Result<Settings> parse_words(const char* command, const Words& words, const Variables& variables = {}) {
  return parse_settings(*find_command(command), words, [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

inline std::string error_of(const char* command, const Words& words, const Variables& variables = {}) {
  const Result<Settings> settings = parse_words(command, words, variables);
  if (settings.ok()) return "no error";
  EXPECT_EQ(exit_code(settings.error().kind), 2);
  EXPECT_EQ(settings.error().message.find('\n'), std::string::npos);
  return settings.error().message;
}

// What a command line says of a flag that means nothing with the rest. Whom it does go with is said too
// (policy/option_takers_test.cpp).
inline std::string no_meaning(const std::string& flag, const std::string& with) {
  return "--" + flag + " has no meaning with " + with + "; it goes with " + policy::takers_of(flag);
}

}  // namespace ei::cli
