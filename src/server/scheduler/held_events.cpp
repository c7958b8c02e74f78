// Routers that listen are told what is held (server/events).
#include <chrono>
#include <new>

#include "server/exceptions.h"
#include "server/scheduler/scheduler.h"

namespace ei::server {

namespace {
double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}
}  // namespace

void Scheduler::listen_for_routers() {
  if (options_.events) options_.events->on_listener([this] { contain([this] { post([this] { tell_all_held(); }); }); });
}

// A message that there is no memory for is lost, as one that the network loses.
void Scheduler::tell_held() try {
  if (!options_.events) return;
  const std::vector<KvEvent> events = events_.update(cache_.texts());
  if (!events.empty()) options_.events->send(event_message(events, unix_seconds()));
} catch (const std::bad_alloc&) {
}

void Scheduler::tell_all_held() { options_.events->send(event_message(KvEvents::all(cache_.texts()), unix_seconds())); }

}  // namespace ei::server
