// A step of a stream that waits for the host: quicker than a callback of the driver, whose thread has to be woken.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace ei::kernels::cuda {

// When the stream gets here *reached becomes `number`, and what follows waits until *done is at least that. Both lie in
// pinned memory; numbers grow, and may wrap around.
Status launch_handshake(uint32_t* reached, const uint32_t* done, uint32_t number, void* stream);

}  // namespace ei::kernels::cuda
