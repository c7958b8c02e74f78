// The roofline meter: what this machine's arithmetic and memory really deliver, so that benchmarks can say which
// share of it they reach.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace ei::kernels {

// Each figure is the best of a few short runs on `threads` threads at once; 0 where the CPU lacks the instruction.
struct Roofline {
  double fp32_flops = 0;        // fused multiply-add, operations per second
  double bf16_flops = 0;        // the fastest instruction on bf16, or on fp16 where there is none
  double read_bytes_per_s = 0;  // sequential reads of memory far larger than the caches
};

// An error (kMemory) when its threads or its memory are not to be had.
Result<Roofline> measure_roofline(int threads);

}  // namespace ei::kernels
