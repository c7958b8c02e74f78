// The ISA variants of attention compiled for this architecture. Each lives in its own file with its own compiler flags
// (isa.cmake); to add one, declare it here and list it in attention.cpp.
#pragma once

#include "kernels/attention.h"

namespace ei::kernels {

#if defined(__aarch64__)
const AttentionVariant& neon_attention();
#endif

}  // namespace ei::kernels
