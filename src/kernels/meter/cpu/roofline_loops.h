// Arithmetic loops of the roofline meter, one file per ISA. To add one, declare it here and list it in roofline.cpp.
#pragma once

#include <cstdint>

namespace ei::kernels {

struct ThroughputLoop {
  bool bf16 = false;  // an instruction on bf16 or fp16; otherwise fp32 multiply-add
  bool (*usable)();
  // Runs `rounds` rounds of independent instructions, as many as hide their latency; returns operations per round.
  double (*run)(int64_t rounds);
};

#if defined(__aarch64__)
ThroughputLoop neon_throughput_loop();
ThroughputLoop neonbf16_throughput_loop();
ThroughputLoop neonfp16_throughput_loop();
#elif defined(__x86_64__)
ThroughputLoop amx_throughput_loop();
ThroughputLoop avx512bf16_throughput_loop();
ThroughputLoop avx512_throughput_loop();
ThroughputLoop avx2_throughput_loop();
#endif

}  // namespace ei::kernels
