// Work on hostile input in a child process: a crash there is the finding, and gigabytes for a lie cannot be had.
#pragma once

#include <cstdint>
#include <functional>

namespace ei::fuzz {

// False when the child ended otherwise than by returning from `work`: by a signal, by exit, after two minutes.
// `memory`: bytes of addresses that it may have (not held to under a sanitizer, which reserves terabytes).
bool child_survives(int64_t memory, const std::function<void()>& work);

}  // namespace ei::fuzz
