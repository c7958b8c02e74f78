// Options of the KV policy: flags that change single fields of what --method names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/options.h"
#include "cli/settings.h"
#include "policy/kv/options.h"

namespace ei::cli {

// Entries of the option table.
std::vector<Option> kv_flags();

// The KV preset of settings.method with the given options on top. kUsage when an option has no meaning because the
// whole cache is kept, or when the values do not go together.
Result<policy::KvOptions> kv_options(const Settings& settings);

// Prompts are read whole, and only what is generated behind them sees a smaller cache.
Result<bool> acts_on_answers_alone(const Settings& settings);
// Full attention over the whole cache.
Result<bool> leaves_nothing_out(const Settings& settings);

// Names of the flags, without dashes, that mean nothing in these settings.
std::vector<std::string> idle_kv_flags(const Settings& settings);

}  // namespace ei::cli
