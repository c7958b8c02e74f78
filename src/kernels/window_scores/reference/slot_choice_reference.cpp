#include "kernels/window_scores/reference/slot_choice_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/top_indices.h"

namespace ei::kernels {
namespace {

float of_group(const RateSlotsParams& params, int64_t set, int64_t slot) {
  const float* from = params.scores + set * params.group * params.stride + slot;
  float value = from[0];
  for (int64_t g = 1; g < params.group; ++g) {
    const float other = from[g * params.stride];
    value = params.mean_of_group ? value + other : std::max(value, other);
  }
  return params.mean_of_group ? value / static_cast<float>(params.group) : value;
}

}  // namespace

void reference_rate_slots(const RateSlotsParams& params) {
  const int64_t half = params.kernel / 2;
  float* to = params.ratings;
  for (size_t set = 0; set < params.slots.size(); ++set) {
    const int64_t slots = params.slots[set];
    std::vector<float> each;
    for (int64_t slot = 0; slot < slots; ++slot) each.push_back(of_group(params, static_cast<int64_t>(set), slot));
    for (int64_t slot = 0; slot < slots; ++slot) {
      const int64_t end = std::min(slots, slot + half + 1);
      float sum = 0;
      float largest = each[static_cast<size_t>(slot)];
      for (int64_t near = std::max<int64_t>(0, slot - half); near < end; ++near) {
        sum += each[static_cast<size_t>(near)];
        largest = std::max(largest, each[static_cast<size_t>(near)]);
      }
      const float pooled = params.mean_of_near ? sum / static_cast<float>(params.kernel) : largest;
      to[slot] = slot < params.sinks ? std::numeric_limits<float>::max() : pooled;
    }
    to += slots;
  }
}

void reference_choose_slots(const ChooseSlotsParams& params) {
  const float* ratings = params.ratings;
  std::vector<uint64_t> scratch;
  for (size_t set = 0; set < params.slots.size(); ++set) {
    const auto slots = static_cast<size_t>(params.slots[set]);
    std::vector<int32_t> best;
    append_top_indices({ratings, slots}, params.counts[set], scratch, best);
    std::copy(best.begin(), best.end(), params.chosen + static_cast<int64_t>(set) * params.stride);
    ratings += slots;
  }
}

void reference_spread_slots(const SpreadSlotsParams& params) {
  const float* ratings = params.ratings;
  for (size_t set = 0; set < params.slots.size(); ++set) {
    double sum = 0;
    double weighted = 0;
    for (int64_t slot = params.first; slot < params.slots[set]; ++slot) {
      const auto rating = static_cast<double>(ratings[slot]);
      if (!(rating > 0)) continue;
      sum += rating;
      weighted += rating * std::log(rating);
    }
    params.spreads[set] = sum > 0 ? static_cast<float>(sum * std::exp(-weighted / sum)) : 0.0f;
    ratings += params.slots[set];
  }
}

void reference_leave_out_slots(const LeaveOutSlotsParams& params) {
  float* ratings = params.ratings;
  for (size_t set = 0; set < params.slots.size(); ++set) {
    const int32_t* chosen = params.chosen + static_cast<int64_t>(set) * params.stride;
    const auto count = std::min<int64_t>(params.counts[set], params.slots[set]);
    for (int64_t i = 0; i < count; ++i) ratings[chosen[i]] = std::numeric_limits<float>::quiet_NaN();
    ratings += params.slots[set];
  }
}

}  // namespace ei::kernels
