// What a KV compression makes of measured attention where the measurements lie: ratings of slots, and the choice among
// them. The contract is policy/kv/ranking.h's, bit for bit; backends that have no such operations leave it to the host.
#pragma once

#include <cstdint>
#include <span>

namespace ei::kernels {

// A set of slots that is chosen together has `group` neighbouring rows of scores; its first slots [0, slots[set]) are
// rated. Ratings of all sets lie one behind the other.
struct RateSlotsParams {
  const float* scores = nullptr;  // [sets * group, stride], stream memory
  int64_t stride = 0;
  int32_t group = 1;
  std::span<const int64_t> slots{};  // [sets]
  bool mean_of_group = true;         // otherwise the largest
  bool mean_of_near = true;          // otherwise the largest
  int32_t kernel = 1;                // neighbours pooled together, odd
  int32_t sinks = 0;                 // first slots that come before all others
  float* ratings = nullptr;          // [sum of slots], stream memory
};

// The counts[set] best of each set, ascending; lower slots first among equals, NaN last of all.
struct ChooseSlotsParams {
  const float* ratings = nullptr;    // as rate_slots wrote them
  std::span<const int64_t> slots{};  // [sets]
  const int32_t* counts = nullptr;   // [sets], of shared() memory, read when the operation runs
  int32_t* chosen = nullptr;  // [sets, stride], of shared() memory: the first counts[set] of each row are written
  int64_t stride = 0;
};

// Over how many slots the ratings of each set spread, from slot `first` on: the exponential of the entropy of those
// above 0 as shares of their sum (policy/kv/ranking.h, but for rounding); 0 where there are none.
struct SpreadSlotsParams {
  const float* ratings = nullptr;    // as rate_slots wrote them
  std::span<const int64_t> slots{};  // [sets]
  int64_t first = 0;
  float* spreads = nullptr;  // [sets], of shared() memory
};

// What was chosen of each set is rated last of all from now on, so that the next choice takes others.
struct LeaveOutSlotsParams {
  const int32_t* chosen = nullptr;  // as choose_slots wrote them
  const int32_t* counts = nullptr;
  int64_t stride = 0;
  std::span<const int64_t> slots{};  // [sets]
  float* ratings = nullptr;          // as rate_slots wrote them
};

}  // namespace ei::kernels
