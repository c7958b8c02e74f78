#include "base/crew_size.h"

namespace ei {

namespace {
// Share of the threads' time that others took: above, the job is worth a trial.
constexpr double kCrowded = 0.25;
// What was found holds for so many times as long as the slower way took: looking again costs a tenth at most.
constexpr double kHolds = 10;
}  // namespace

int CrewSize::next(double now_s) const { return trial_ || now_s < alone_until_ ? 1 : threads_; }

void CrewSize::record(int threads, double now_s, double wall_s, double cpu_s) {
  if (threads_ == 1) return;
  if (threads == threads_) {
    trial_ = now_s >= no_trial_until_ && cpu_s < (1 - kCrowded) * threads_ * wall_s;
    crew_s_ = wall_s;
  } else if (trial_) {
    trial_ = false;
    if (wall_s < crew_s_) {
      alone_until_ = now_s + kHolds * crew_s_;
    } else {
      no_trial_until_ = now_s + kHolds * wall_s;
    }
  }
}

}  // namespace ei
