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
// kUsage where prompts of at most `tokens` tokens (`flag` says how many) are read whole by a sparse method, and nothing
// behind them is compressed either: what would be measured is full attention.
Status check_acts_on(const Settings& settings, int64_t tokens, const char* flag, bool generates);
// Full attention over the whole cache.
Result<bool> leaves_nothing_out(const Settings& settings);

// Names of the flags, without dashes, that mean nothing in these settings.
std::vector<std::string> idle_kv_flags(const Settings& settings);

}  // namespace ei::cli
