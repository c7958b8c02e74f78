#include "cli/signals.h"

#include <unistd.h>

#include <csignal>

#include "base/check.h"
#include "base/result.h"
#include "cli/line_editor.h"

namespace ei::cli {

namespace {
// A signal handler has no other way to find its object.
std::atomic<Interrupts*> active{nullptr};

extern "C" void handle_signal(int) {
  if (Interrupts* interrupts = active.load(std::memory_order_relaxed)) interrupts->on_signal();
}

// A file that shrinks while it is mapped leaves pages with nothing behind them.
extern "C" void handle_lost_file(int) {
  static std::atomic_flag said = ATOMIC_FLAG_INIT;
  while (said.test_and_set()) pause();  // another thread says it and leaves
  constexpr char kLine[] = "entropyinfer: the model file was cut short while it was in use\n";
  static_cast<void>(::write(STDERR_FILENO, kLine, sizeof kLine - 1) == 0);
  HiddenTyping::undo();
  _exit(exit_code(ErrorKind::kModel));
}

void set_handler(int signal_number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(signal_number, &action, nullptr);
}
}  // namespace

Interrupts::Interrupts() {
  EI_CHECK(active.load() == nullptr);
  active.store(this);
  // Whoever starts a program in the background may have it ignore Ctrl-C.
  struct sigaction given {};
  ignores_int_ = sigaction(SIGINT, nullptr, &given) == 0 && given.sa_handler == SIG_IGN;
  if (!ignores_int_) set_handler(SIGINT, handle_signal);
  set_handler(SIGTERM, handle_signal);
  set_handler(SIGPIPE, SIG_IGN);
  set_handler(SIGXFSZ, SIG_IGN);
  set_handler(SIGBUS, handle_lost_file);
}

Interrupts::~Interrupts() {
  if (!ignores_int_) set_handler(SIGINT, SIG_DFL);
  set_handler(SIGTERM, SIG_DFL);
  active.store(nullptr);
}

void Interrupts::on_signal() {
  const Phase phase = phase_.load(std::memory_order_relaxed);
  const bool again = signals_.fetch_add(1, std::memory_order_relaxed) > 0;
  if (again || phase == Phase::kOutside) {
    HiddenTyping::undo();
    LineEditor::leave_prompt();
    _exit(exit_code(ErrorKind::kInterrupted));
  }
  stop_soon_.cancel();
  if (phase == Phase::kPrompt) stop_now_.cancel();
}

void Interrupts::reset() {
  signals_.store(0, std::memory_order_relaxed);
  stop_soon_.reset();
  stop_now_.reset();
}

}  // namespace ei::cli
