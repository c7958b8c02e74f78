// The row-peak variants, each defined in a file of its own.
#pragma once

#include "kernels/block_scores/cpu/block_scores.h"

namespace ei::kernels {

const PeakVariant& portable_peaks();
#if defined(__aarch64__)
const PeakVariant& i8mm_peaks();
const PeakVariant& dotprod_peaks();
#elif defined(__x86_64__)
const PeakVariant& amx_peaks();
const PeakVariant& avx512_peaks();
const PeakVariant& avx2_peaks();
#endif

}  // namespace ei::kernels
