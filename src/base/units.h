// Numbers as people read them: bytes and seconds with a unit.
#pragma once

#include <cstdint>
#include <string>

namespace ei {

// "1.5 GiB"
std::string format_bytes(double bytes);
// "0.42 s", "3 min 05 s"
std::string format_seconds(double seconds);
// "1 token", "2 tokens"
std::string counted(int64_t count, const std::string& noun);

}  // namespace ei
