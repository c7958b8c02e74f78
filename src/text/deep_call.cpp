#include "text/deep_call.h"

#include <pthread.h>

#include <exception>

namespace ei::text {
namespace {

struct Call {
  const std::function<void()>* function;
  std::exception_ptr thrown;
};

void* run(void* argument) {
  auto* call = static_cast<Call*>(argument);
  try {
    (*call->function)();
  } catch (...) {
    call->thrown = std::current_exception();
  }
  return nullptr;
}

}  // namespace

bool call_with_stack(size_t stack_bytes, const std::function<void()>& function) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  Call call{&function, nullptr};
  pthread_t thread{};
  const bool started =
      pthread_attr_setstacksize(&attributes, stack_bytes) == 0 && pthread_create(&thread, &attributes, run, &call) == 0;
  pthread_attr_destroy(&attributes);
  if (!started) return false;
  pthread_join(thread, nullptr);
  if (call.thrown) std::rethrow_exception(call.thrown);
  return true;
}

}  // namespace ei::text
