// Names that nobody guesses: of answers, calls and texts.
#pragma once

#include <string>

namespace ei::server {

// 24 letters and digits that nobody has seen before.
std::string random_name();

}  // namespace ei::server
