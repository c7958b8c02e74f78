#if defined(__x86_64__)
#include "kernels/meter/cpu/roofline_lanes.h"
#include "kernels/meter/cpu/roofline_loops.h"
#include "kernels/simd/vec_avx2.h"
#include "kernels/simd/x86_features.h"

namespace ei::kernels {

ThroughputLoop avx2_throughput_loop() {
  return {.bf16 = false, .usable = cpu_has_avx2, .run = run_fma_lanes<Vec8, 4, 3, false>};
}

}  // namespace ei::kernels
#endif
