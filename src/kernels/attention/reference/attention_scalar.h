// The scalar attention variant: slow, obvious, accumulated in double. The oracle of every other variant's tests.
#pragma once

#include "kernels/attention/attention.h"

namespace ei::kernels {

const AttentionVariant& scalar_attention();

}  // namespace ei::kernels
