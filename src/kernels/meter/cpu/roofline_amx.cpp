#if defined(__x86_64__)
#include "kernels/meter/cpu/roofline_loops.h"
#include "kernels/simd/tiles_amx.h"
#include "kernels/simd/x86_features.h"

namespace ei::kernels {
namespace {

// Two tiles of A times two of B, loaded anew in every round as real products do.
double run(int64_t rounds) {
  alignas(64) uint16_t operands[4][512];
  for (auto& tile : operands) {
    for (uint16_t& element : tile) element = 0x3a83;
  }
  const TileConfig before = TilesAmx::configure();
  TilesAmx::zero<0>();
  TilesAmx::zero<1>();
  TilesAmx::zero<2>();
  TilesAmx::zero<3>();
  for (int64_t round = 0; round < rounds; ++round) {
    TilesAmx::load<4>(operands[0]);
    TilesAmx::load<5>(operands[1]);
    TilesAmx::load<6>(operands[2]);
    TilesAmx::load<7>(operands[3]);
    TilesAmx::dot<0, 4, 6>();
    TilesAmx::dot<1, 4, 7>();
    TilesAmx::dot<2, 5, 6>();
    TilesAmx::dot<3, 5, 7>();
  }
  TilesAmx::restore(before);
  return 4 * 2.0 * 16 * 16 * 32;
}

}  // namespace

ThroughputLoop amx_throughput_loop() { return {.bf16 = true, .usable = cpu_has_amx_bf16, .run = run}; }

}  // namespace ei::kernels
#endif
