#include "base/parse.h"

#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

namespace ei {

namespace {
Error bad_value(std::string_view value, const std::string& why) {
  return make_error(ErrorKind::kUsage, "'%s' %s", std::string(value).c_str(), why.c_str());
}

std::string show_real(double value) { return str_format("%g", value); }

std::string range_text(const std::string& low, const std::string& high, bool open_above) {
  return open_above ? "at least " + low : "from " + low + " to " + high;
}
}  // namespace

Result<int64_t> parse_whole(std::string_view value, int64_t low, int64_t high) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error == std::errc::result_out_of_range) return bad_value(value, "is out of range");
  if (error != std::errc() || end != value.data() + value.size()) return bad_value(value, "is not a whole number");
  if (number < low || number > high) {
    const bool open_above = high == std::numeric_limits<int64_t>::max();
    return bad_value(value, "is out of range: " + range_text(std::to_string(low), std::to_string(high), open_above));
  }
  return number;
}

Result<double> parse_real(std::string_view value, double low, double high) {
  const std::string copy(value);
  char* end = nullptr;
  errno = 0;
  const double number = std::strtod(copy.c_str(), &end);
  if (copy.empty() || *end != '\0' || end == copy.c_str() || std::isspace(static_cast<unsigned char>(copy[0]))) {
    return bad_value(value, "is not a number");
  }
  if (!std::isfinite(number)) return bad_value(value, "is not a finite number");
  if (number < low || number > high) {
    return bad_value(value, "is out of range: " + range_text(show_real(low), show_real(high), std::isinf(high)));
  }
  return number;
}

Result<bool> parse_switch(std::string_view value) {
  for (const char* yes : {"1", "true", "on", "yes"}) {
    if (value == yes) return true;
  }
  for (const char* no : {"0", "false", "off", "no"}) {
    if (value == no) return false;
  }
  return bad_value(value, "is neither on nor off");
}

}  // namespace ei
