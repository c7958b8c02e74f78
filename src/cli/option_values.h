// How one option reads its value from text and shows its default: the binders of the table in options.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/parse.h"
#include "base/result.h"
#include "cli/settings.h"

namespace ei::cli {

inline constexpr double kInfinite = std::numeric_limits<double>::infinity();

// "512,1024", "first-last" (step 1), "first-last+step", "first-last*mult"; duplicates are kept, order too.
Result<std::vector<int64_t>> parse_list(std::string_view text, int64_t low, int64_t high);
std::vector<std::string> split(std::string_view text, char separator);

struct Binding {
  std::function<Status(Settings&, const std::string&)> set;  // the error says what is wrong with the value
  std::function<std::string(const Settings&)> show;          // empty: nothing to show
  bool is_switch = false;                                    // takes no value on the command line
  bool repeats = false;                                      // given twice: the values are joined
  char joint = ',';                                          // by this
  bool may_be_bare = false;                                  // the value may be left out in front of another flag
};

// Between the values of an option whose values may hold anything.
inline constexpr char kUnitSeparator = '\x1f';

Binding whole(int64_t Settings::*field, int64_t low, int64_t high);
Binding whole_or_zero(int64_t Settings::*field, int64_t low, int64_t high);
Binding seed(int64_t Settings::*field, int64_t high);  // -1: a random one, drawn here
Binding real(double Settings::*field, double low, double high);
Binding text(std::string Settings::*field);
Binding filled(std::string Settings::*field);               // a text that must not be empty
Binding text(std::optional<std::string> Settings::*field);  // tells an empty text from none
Binding toggle(bool Settings::*field);
// Texts that may hold commas; given again, one more.
Binding texts(std::vector<std::string> Settings::*field);
// A switch of llama.cpp that is accepted and changes nothing; `why` goes to Settings::notes.
Binding without_effect(const char* name, const char* why);
// The same where one of `choices` may stand behind it.
Binding without_effect(const char* name, const char* why, const std::vector<std::string>& choices);
Binding choice(std::string Settings::*field, const std::vector<std::string>& choices);
Binding whole_list(std::vector<int64_t> Settings::*field, int64_t low, int64_t high);
Binding choice_list(std::vector<std::string> Settings::*field, const std::vector<std::string>& choices);

}  // namespace ei::cli
