// The methods the engine knows, by name: what --method offers, what the property tests walk through.
#pragma once

#include <span>
#include <string_view>

#include "policy/kv/recipe.h"
#include "policy/prefill/options.h"

namespace ei::policy {

struct Method {
  std::string_view name;
  std::string_view summary;  // one line for --help
  PrefillOptions prefill;
  KvOptions kv;
};

std::span<const Method> methods();
// Null when there is none of that name.
const Method* find_method(std::string_view name);

}  // namespace ei::policy
