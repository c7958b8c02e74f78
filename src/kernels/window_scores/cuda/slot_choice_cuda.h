// Ratings of slots and the choice among them on a GPU: the contract is slot_choice.h's. No CUDA header is needed to
// include this.
#pragma once

#include "base/result.h"
#include "kernels/window_scores/slot_choice.h"

namespace ei::kernels::cuda {

inline constexpr int kMostSets = 256;  // of one launch

Status launch_rate_slots(const RateSlotsParams& params, void* stream);
Status launch_choose_slots(const ChooseSlotsParams& params, void* stream);
Status launch_spread_slots(const SpreadSlotsParams& params, void* stream);
Status launch_leave_out_slots(const LeaveOutSlotsParams& params, void* stream);

}  // namespace ei::kernels::cuda
