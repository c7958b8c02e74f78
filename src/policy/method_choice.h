// MethodChoice: a preset by name and changes to it by option name, as a command line or a request gives them; from it
// come the checked options of both halves.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "policy/kv/options.h"
#include "policy/option_spec.h"
#include "policy/prefill/options.h"

namespace ei::policy {

inline constexpr std::string_view kPrefillPolicy = "prefill-policy";  // full or sparse, whatever the preset says

struct MethodChoice {
  std::string method = "full";
  std::map<std::string, std::string> options{};  // by the names of the option tables, and kPrefillPolicy

  // What was given for an option; null: nothing.
  const std::string* given(std::string_view name) const;
};

// What a request gives on top of a server's choice. Of two ways to say how much is read, the server's gives way.
void give_on_top(MethodChoice& choice, const std::map<std::string, std::string>& options);

Status check_prefill_policy(const std::string& value);

// The preset with what was given on top. kUsage when an option has no meaning for the method or the values do not go
// together.
Result<PrefillOptions> prefill_options(const MethodChoice& choice);
Result<KvOptions> kv_options(const MethodChoice& choice);
bool reads_sparsely(const MethodChoice& choice);
// Names of KV options that were given and that nothing reads.
std::vector<std::string> idle_kv_options(const MethodChoice& choice);
// What makes a prompt be read in full: the policy where it was given, else the methods.
std::string cause_of_full(const MethodChoice& choice, const std::string& methods);
// Names what the option has no meaning with, and who takes it.
Error no_meaning(std::string_view flag, const std::string& with);

// "base-budget=512,select=midrange": what was given; empty when it is the plain preset.
std::string options_text(const MethodChoice& choice);

}  // namespace ei::policy
