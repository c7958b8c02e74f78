// The reference of attention_sums.h: slow, obvious.
#pragma once

#include "kernels/window_scores/attention_sums.h"

namespace ei::kernels {

void reference_attention_sums(const AttentionSumParams& params);

}  // namespace ei::kernels
