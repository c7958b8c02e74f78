#if defined(__x86_64__)
#include "kernels/meter/cpu/roofline_lanes.h"
#include "kernels/meter/cpu/roofline_loops.h"
#include "kernels/simd/vec_avx512.h"
#include "kernels/simd/x86_features.h"

namespace ei::kernels {

ThroughputLoop avx512bf16_throughput_loop() {
  return {.bf16 = true, .usable = cpu_has_avx512bf16, .run = run_fma_lanes<Vec16, 8, 3, true>};
}

}  // namespace ei::kernels
#endif
