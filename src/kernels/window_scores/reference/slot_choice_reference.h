// Ratings of slots and the choice among them in plain loops: the oracle of the fast ones.
#pragma once

#include "kernels/window_scores/slot_choice.h"

namespace ei::kernels {

void reference_rate_slots(const RateSlotsParams& params);
void reference_choose_slots(const ChooseSlotsParams& params);
void reference_spread_slots(const SpreadSlotsParams& params);
void reference_leave_out_slots(const LeaveOutSlotsParams& params);

}  // namespace ei::kernels
