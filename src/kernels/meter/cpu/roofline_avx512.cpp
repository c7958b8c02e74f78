#if defined(__x86_64__)
#include "kernels/meter/cpu/roofline_lanes.h"
#include "kernels/meter/cpu/roofline_loops.h"
#include "kernels/simd/vec_avx512.h"
#include "kernels/simd/x86_features.h"

namespace ei::kernels {

ThroughputLoop avx512_throughput_loop() {
  return {.bf16 = false, .usable = cpu_has_avx512, .run = run_fma_lanes<Vec16, 8, 3, false>};
}

}  // namespace ei::kernels
#endif
