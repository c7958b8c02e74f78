// The CPU this build is for (EI_CPU_TARGET). Kernels are chosen at run time by what the CPU has; the target caps the
// choice, so that any CPU can stand in for a lesser one of its architecture.
#pragma once

#include <string_view>

namespace ei::kernels {

// "armv8.2", "x86-64-v3" ...; "" for a build that may use all that the CPU has.
std::string_view cpu_target();
// Whether the target reaches `level`, a target of this architecture; without a target it always does. "" is beyond
// every target.
bool target_reaches(std::string_view level);
// Whether this CPU has all the instructions of the target: what ggml was compiled with is not chosen at run time.
bool cpu_meets_target();

}  // namespace ei::kernels
