// PassShares: whose token joins a pass over the weights, and what that is charged with. What is done for one task
// alone - its sampler, its grammar, its likely tokens - is that task's: where it takes long, others need not wait for
// it each time. Only arithmetic: the clocks are the caller's.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>

#include "base/clock.h"

namespace ei::server {

// Of a task's last token, without the pass: by the clock, and of the processor.
struct OwnTime {
  double cpu_s = 0;
  double wall_s = 0;

  static OwnTime now() { return {.cpu_s = thread_cpu_s(), .wall_s = now_s()}; }
  void add_since(const OwnTime& start) {
    const OwnTime end = now();
    cpu_s += end.cpu_s - start.cpu_s;
    wall_s += end.wall_s - start.wall_s;
  }
};

// What the samplers of one pass take together, on whichever threads they run. Who has not begun when they have had
// kMost chooses in a turn of his own.
class SamplingTime {
 public:
  static constexpr double kMost = 0.25;  // seconds of the processor

  bool begin() {
    if (taken_us_.load() > static_cast<int64_t>(kMost * 1e6)) return false;
    const int now = ++at_work_;
    for (int most = most_.load(); now > most && !most_.compare_exchange_weak(most, now);) {
    }
    return true;
  }
  void end(double cpu_s) {
    taken_us_ += static_cast<int64_t>(cpu_s * 1e6);
    --at_work_;
  }
  int most_at_once() const { return most_.load(); }

 private:
  std::atomic<int64_t> taken_us_{0};
  std::atomic<int> at_work_{0};
  std::atomic<int> most_{0};
};

class PassShares {
 public:
  // Asked about in the order of their time: does it join the pass of `first`? All do whose own work is little beside a
  // pass. A dear one waits for its turn, to be first; beside another dear one it joins as far as that takes no longer.
  class Guests {
   public:
    Guests(const PassShares& shares, const OwnTime& first);
    bool joins(const OwnTime& other);

   private:
    const PassShares& shares_;
    const double first_s_;  // 0: not dear
    double room_s_;
  };

  // A pass took so long in all, these among it; and what each of them is charged with, where of the pass itself only
  // `weight` counts.
  void took(double seconds, std::span<const OwnTime> own);
  double charge(const OwnTime& own, double weight) const { return weight * shared_s_ + (dear(own) ? own.wall_s : 0); }
  // So many samplers were seen at work at once.
  void saw(int at_once) { at_once_ = std::max(at_once_, at_once); }

  static constexpr double kLittle = 0.5;         // of a pass, by the clock
  static constexpr double kLittleCpu = 1. / 16;  // whoever has hardly computed was held up by other programs

 private:
  bool dear(const OwnTime& own) const { return own.wall_s > kLittle * pass_s_ && own.cpu_s > kLittleCpu * pass_s_; }

  // A pass without anybody's own work: where other programs run it takes longer, so the best counts and is forgotten
  // slowly.
  double pass_s_ = 1e9;
  double shared_s_ = 0;  // the last one, with what is not dear
  int at_once_ = 1;
};

}  // namespace ei::server
