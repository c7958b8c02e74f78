// Who reads an option of a method, in words: for the message where nothing does.
#pragma once

#include <string>
#include <string_view>

namespace ei::policy {

// "--method expected, or with --kv-queries sampled": whose preset reads the option, and which other option makes one
// read it that does not by itself. Both are found by trying, so nothing has to be listed.
std::string takers_of(std::string_view flag);

}  // namespace ei::policy
