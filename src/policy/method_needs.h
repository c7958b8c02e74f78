// What a method needs, in words: what it measures, and where not every backend can. Made of what its objects say, so
// that it cannot be wrong.
#pragma once

#include <string>

#include "policy/registry.h"

namespace ei::policy {

// "samples of attention; attention of the last 32 queries"; "nothing".
std::string needs_text(const Method& method);

}  // namespace ei::policy
