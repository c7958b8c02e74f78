// Values from text, as flags, variables and config files give them. An error says what is wrong with the value.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace ei {

Result<int64_t> parse_whole(std::string_view text, int64_t low, int64_t high);
Result<double> parse_real(std::string_view text, double low, double high);
Result<bool> parse_switch(std::string_view text);  // 1/0, true/false, on/off, yes/no

}  // namespace ei
