// Which segments of a chunk are worked on together. Needs nothing of CUDA, so that builds without it test it too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace ei {

// Calls launch() for the segments that are wanted, in their order, round by round. `round` has room for those of one;
// `count`, of which launch() leaves 0, says how many there are. A round has as many as fits() says, a single one in any
// case.
template <typename Fits, typename Launch>
Status in_rounds(std::span<const uint8_t> wanted, std::span<int32_t> round, int32_t& count, Fits fits, Launch launch) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == 0) continue;
    if (static_cast<size_t>(count) == round.size()) EI_RETURN_IF_ERROR(launch());
    const auto segment = static_cast<int32_t>(i);
    round[static_cast<size_t>(count++)] = segment;
    if (count == 1 || fits()) continue;
    --count;
    EI_RETURN_IF_ERROR(launch());
    round[static_cast<size_t>(count++)] = segment;
  }
  return count > 0 ? launch() : Status{};
}

}  // namespace ei
