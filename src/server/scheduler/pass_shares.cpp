#include "server/scheduler/pass_shares.h"

namespace ei::server {

namespace {
constexpr double kForgets = 1.25;
constexpr double kLeastShare = 0.02;  // of what a pass took, in case its samplers ran beside each other unseen
}  // namespace

PassShares::Guests::Guests(const PassShares& shares, const OwnTime& first)
    : shares_(shares),
      first_s_(shares.dear(first) ? first.cpu_s : 0),
      room_s_(first_s_ * static_cast<double>(shares.at_once_ - 1)) {}

bool PassShares::Guests::joins(const OwnTime& other) {
  if (!shares_.dear(other)) return true;
  if (other.cpu_s > first_s_ || other.cpu_s > room_s_) return false;
  room_s_ -= other.cpu_s;
  return true;
}

void PassShares::took(double seconds, std::span<const OwnTime> own) {
  // Side by side as far as it can be.
  const auto together = [&](bool all) {
    double sum = 0;
    double longest = 0;
    for (const OwnTime& one : own) {
      if (!all && !dear(one)) continue;
      sum += one.wall_s;
      longest = std::max(longest, one.wall_s);
    }
    return std::max(sum / at_once_, longest);
  };
  pass_s_ = std::min(std::max(seconds - together(/*all=*/true), kLeastShare * seconds), pass_s_ * kForgets);
  // It would have taken as long without the others, but for those that are dear.
  shared_s_ = std::max(seconds - together(/*all=*/false), 0.0);
}

}  // namespace ei::server
