// Arithmetic loops of the roofline meter, one file per ISA. To add one, declare it here and list it in roofline.cpp.
#pragma once

#include <cstdint>

namespace ei::kernels {

struct PeakLoop {
  bool bf16 = false;  // an instruction on bf16 or fp16; otherwise fp32 multiply-add
  bool (*usable)();
  // Runs `rounds` rounds of independent instructions, as many as hide their latency; returns operations per round.
  double (*run)(int64_t rounds);
};

#if defined(__aarch64__)
PeakLoop neon_peak_loop();
PeakLoop neonbf16_peak_loop();
PeakLoop neonfp16_peak_loop();
#elif defined(__x86_64__)
PeakLoop amx_peak_loop();
PeakLoop avx512bf16_peak_loop();
PeakLoop avx512_peak_loop();
PeakLoop avx2_peak_loop();
#endif

}  // namespace ei::kernels
