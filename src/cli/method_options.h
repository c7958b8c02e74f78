// Options of a method: flags that change single fields of the preset that --method names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/options.h"
#include "cli/settings.h"
#include "policy/method_choice.h"
#include "policy/prefill/options.h"

namespace ei::cli {

// What settings say about the method.
policy::MethodChoice method_choice(const Settings& settings);

// Entries of the option table for the sparse prefill.
std::vector<Option> prefill_flags();

// The preset of settings.method with the given options on top. kUsage when an option has no meaning for the method or
// the values do not go together.
Result<policy::PrefillOptions> prefill_options(const Settings& settings);

// The settings of one method among several: without the options that mean nothing to it.
Settings settings_for_method(const Settings& settings, std::string_view method);
// Every option that was given must mean something to at least one of the methods, and fit each it means something to.
Status check_method_options(const Settings& settings, const std::vector<std::string>& methods);

// "base-budget=512,select=midrange": what was given, in the form --vs reads; empty when it is the plain preset.
std::string method_options_text(const Settings& settings);

}  // namespace ei::cli
