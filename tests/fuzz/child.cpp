#include "child.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace ei::fuzz {
namespace {

constexpr unsigned kSeconds = 120;

void limit_memory([[maybe_unused]] int64_t bytes) {
#ifndef EI_SANITIZED
  const rlimit memory = {static_cast<rlim_t>(bytes), static_cast<rlim_t>(bytes)};
  ::setrlimit(RLIMIT_AS, &memory);
#endif
}

}  // namespace

bool child_survives(int64_t memory, const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    limit_memory(memory);
    ::alarm(kSeconds);
    ::setenv("GGML_NO_BACKTRACE", "1", 1);
    if (std::freopen("/dev/null", "w", stderr) == nullptr) ::_exit(1);
    work();
    ::_exit(0);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace ei::fuzz
