// White space of answers.
#pragma once

#include <string_view>

namespace ei::eval {

std::string_view strip(std::string_view text);  // without white space at both ends

}  // namespace ei::eval
