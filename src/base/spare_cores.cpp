#include "base/spare_cores.h"

#include <algorithm>

namespace ei {

namespace {
constexpr double kSpareWindow = 0.04;  // seconds
// Share of the threads' time that others took: below, all go on.
constexpr double kSpareCrowded = 0.25;
// What was found holds for so many times as long as finding it took, and no longer than this, for others come and go;
// but where one piece took long beside them, looking again must not cost more than what is between two looks.
constexpr double kSpareHolds = 10;
constexpr double kSpareHoldsMost = 2;   // seconds
constexpr double kSpareHoldsLeast = 5;  // times as long as finding it took
constexpr double kSparePause = 0.005;   // between two pieces: nothing ran because there was nothing to do
constexpr double kAlmost = 0.25;        // of a core counts as one more
constexpr double kGuessHolds = 0.25;    // seconds
constexpr double kGuessLongest = 2;     // seconds
constexpr double kGuessDoubted = 60;    // seconds, behind a wrong one
}  // namespace

void SpareCores::expect(double now_s, int idle) {
  if (threads_ == 1 || now_s < fewer_until_ || now_s < doubted_until_) return;
  if (idle >= threads_) {
    expected_ = false;
    return;
  }
  if (!expected_) guess_begin_s_ = now_s;
  if (now_s - guess_begin_s_ > kGuessLongest) return;
  fewer_ = std::clamp(idle, 1, threads_ - 1);
  fewer_until_ = now_s + kGuessHolds;
  expected_ = true;
}

bool SpareCores::guess_ended(double now_s) const {
  return expected_ && now_s >= fewer_until_ && now_s - guess_begin_s_ <= kGuessLongest;
}

int SpareCores::begin(double now_s, double cpu_s) {
  employed_ = now_s < fewer_until_ ? fewer_ : threads_;
  if (now_s - end_s_ > kSparePause) looking_ = false;
  if (employed_ == threads_ && !looking_) {
    looking_ = true;
    look_begin_s_ = now_s;
    look_begin_cpu_s_ = cpu_s;
  }
  return employed_;
}

void SpareCores::end(double now_s, double cpu_s) {
  end_s_ = now_s;
  const double wall_s = now_s - look_begin_s_;
  if (threads_ == 1 || employed_ != threads_ || wall_s < kSpareWindow) return;
  looking_ = false;
  const double cores = (cpu_s - look_begin_cpu_s_) / wall_s;
  const bool crowded = cores < (1 - kSpareCrowded) * threads_;
  if (expected_ && !crowded) doubted_until_ = now_s + kGuessDoubted;
  expected_ = false;
  if (!crowded) return;
  fewer_ = std::clamp(static_cast<int>(cores + kAlmost), 1, threads_ - 1);
  fewer_until_ = now_s + std::max(std::min(kSpareHolds * wall_s, kSpareHoldsMost), kSpareHoldsLeast * wall_s);
}

}  // namespace ei
