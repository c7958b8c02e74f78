#include "cli/hangups.h"

#include <atomic>
#include <csignal>

namespace ei::cli {

namespace {
std::atomic<bool> hangup_came{false};

extern "C" void handle_hangup(int) { hangup_came.store(true, std::memory_order_relaxed); }

void set_hangup_handler(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(SIGHUP, &action, nullptr);
}
}  // namespace

Hangups::Hangups() { set_hangup_handler(handle_hangup); }
Hangups::~Hangups() { set_hangup_handler(SIG_DFL); }
bool Hangups::come() { return hangup_came.exchange(false); }

}  // namespace ei::cli
