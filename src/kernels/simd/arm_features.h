// What this ARM CPU and its operating system allow, as far as the build's target reaches (cpu_target.h). Compiled with
// plain flags, called once per variant.
#pragma once

namespace ei::kernels {

bool cpu_has_dotprod();  // 8-bit dot products
bool cpu_has_fp16();     // arithmetic on vectors of fp16
bool cpu_has_bf16();     // BFMMLA and BFDOT
bool cpu_has_i8mm();     // 8-bit matrix products

}  // namespace ei::kernels
