// Runs a function on a thread of its own with a given stack, for libraries that recurse with their input.
#pragma once

#include <cstddef>
#include <functional>

namespace ei::text {

// False when the thread cannot be made. What the function throws is thrown here.
bool call_with_stack(size_t stack_bytes, const std::function<void()>& function);

}  // namespace ei::text
