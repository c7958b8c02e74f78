#include "base/units.h"

#include <iterator>

#include "base/result.h"

namespace ei {

std::string format_bytes(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(units)) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? str_format("%.0f B", bytes) : str_format("%.1f %s", bytes, units[unit]);
}

std::string format_seconds(double seconds) {
  if (seconds < 60) return str_format("%.2f s", seconds);
  const auto whole = static_cast<long long>(seconds);
  return str_format("%lld min %02lld s", whole / 60, whole % 60);
}

std::string counted(int64_t count, const std::string& noun) {
  return str_format("%lld %s%s", static_cast<long long>(count), noun.c_str(), count == 1 ? "" : "s");
}

}  // namespace ei
