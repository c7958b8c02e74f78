#include "base/worker_count.h"

#include <algorithm>

namespace ei {

namespace {
// Share of the threads' time that others took: above, the job is worth a trial.
constexpr double kCrowded = 0.25;
constexpr double kWindow = 0.04;  // seconds
// What was found holds for so many times as long as the slower way took: looking again costs a tenth at most.
constexpr double kHolds = 10;
constexpr double kGuessedAlone = 0.25;  // seconds
constexpr double kGuessesLongest = 2;   // seconds
constexpr double kGuessesDoubted = 60;  // seconds, behind a wrong one
}  // namespace

void WorkerCount::expect(double now_s, int idle) {
  if (threads_ == 1 || now_s < doubted_until_) return;
  if (2 * idle > threads_) {
    expected_ = false;
    return;
  }
  if (!expected_) guess_begin_s_ = now_s;
  if (now_s - guess_begin_s_ > kGuessesLongest) return;
  alone_until_ = std::max(alone_until_, now_s + kGuessedAlone);
  expected_ = true;
}

bool WorkerCount::guess_ended(double now_s) const {
  return expected_ && now_s >= alone_until_ && now_s - guess_begin_s_ <= kGuessesLongest;
}

int WorkerCount::begin(double now_s, double cpu_s) {
  employed_ = trial_ || now_s < alone_until_ ? 1 : threads_;
  begin_s_ = now_s;
  if (employed_ == threads_) alone_begin_s_ = 0;
  if (employed_ == 1 && alone_begin_s_ == 0) {
    alone_begin_s_ = now_s;
    alone_begin_cpu_s_ = cpu_s;
  }
  if (employed_ == threads_ && jobs_ == 0) {
    window_begin_s_ = now_s;
    window_begin_cpu_s_ = cpu_s;
  }
  return employed_;
}

void WorkerCount::end(double now_s, double cpu_s) {
  if (threads_ == 1) return;
  const double wall_s = now_s - begin_s_;
  if (employed_ == threads_) {
    ++jobs_;
    if (now_s - window_begin_s_ >= kWindow) look_at_all(now_s, cpu_s);
  } else if (!trial_) {
    look_at_one(now_s, cpu_s);
  } else {
    trial_ = false;
    if (wall_s < all_s_) {
      alone_until_ = now_s + kHolds * all_s_;
    } else {
      no_trial_until_ = now_s + kHolds * wall_s;
    }
  }
}

// One thread that does not find a core confirms the guess: all of them need not be tried, which beside many others may
// take minutes.
void WorkerCount::look_at_one(double now_s, double cpu_s) {
  const double wall_s = now_s - alone_begin_s_;
  if (wall_s < kWindow) return;
  if (expected_ && cpu_s - alone_begin_cpu_s_ < (1 - kCrowded) * wall_s) guess_begin_s_ = now_s;
  alone_begin_s_ = now_s;
  alone_begin_cpu_s_ = cpu_s;
}

void WorkerCount::look_at_all(double now_s, double cpu_s) {
  const double could = threads_ * (now_s - window_begin_s_);
  const bool crowded = cpu_s - window_begin_cpu_s_ < (1 - kCrowded) * could;
  if (expected_ && !crowded) doubted_until_ = now_s + kGuessesDoubted;
  expected_ = false;
  trial_ = now_s >= no_trial_until_ && crowded;
  all_s_ = now_s - begin_s_;  // and not the mean: earlier jobs may have been longer ones
  jobs_ = 0;
}

}  // namespace ei
