// The reference of window_scores.h: slow, obvious, sums in double. The oracle of every faster twin.
#pragma once

#include "kernels/window_scores/window_scores.h"

namespace ei::kernels {

void reference_window_scores(const WindowScoreParams& params);

}  // namespace ei::kernels
