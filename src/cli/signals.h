// Ctrl-C: the first stops after the current token (while a prompt is read: at once), the second leaves the process.
#pragma once

#include <atomic>

#include "base/cancel.h"

namespace ei::cli {

class Interrupts {
 public:
  // Handles SIGINT, SIGTERM and SIGBUS (a model file that was cut short) while it lives, and ignores SIGPIPE and
  // SIGXFSZ (a closed stdout and a file at its limit are seen at the next write). One at a time.
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // Raised by the first signal: stop after this token.
  const CancelToken& stop_soon() const { return stop_soon_; }
  CancelToken& stop_soon() { return stop_soon_; }
  // Raised by the first signal while a prompt is being read: stop now. Given to sessions.
  const CancelToken& stop_now() const { return stop_now_; }

  // What a signal finds: nothing worth finishing (loading, waiting for input), a prompt being read, an answer.
  enum class Phase { kOutside, kPrompt, kAnswer };
  void enter(Phase phase) { phase_.store(phase, std::memory_order_relaxed); }
  // Forgets the signals so far (the next turn of a chat).
  void reset();
  bool interrupted() const { return signals_.load(std::memory_order_relaxed) > 0; }

  void on_signal();  // for the handler; async-signal-safe

 private:
  CancelToken stop_soon_;
  CancelToken stop_now_;
  std::atomic<Phase> phase_{Phase::kOutside};
  std::atomic<int> signals_{0};
  bool ignores_int_ = false;
};

}  // namespace ei::cli
