// Who begins: tasks that wait get slots, in the order of their priorities, and what of their prompts somebody has read.
#include <algorithm>
#include <limits>
#include <new>
#include <utility>

#include "base/clock.h"
#include "server/exceptions.h"
#include "server/scheduler/scheduler.h"

namespace ei::server {

namespace {
const Error kCancelled{ErrorKind::kInterrupted, "the request was cancelled"};
// A file is worth loading where it has so many tokens more than what is in memory.
constexpr int64_t kWorthLoading = 64;

// How a task's prompt is read: texts that were read otherwise have other values.
std::string space_of(const Task& task) {
  if (!policy::reads_sparsely(task.method)) return {};
  return task.method.method + ":" + policy::options_text(task.method);
}
}  // namespace

void Scheduler::drop_cancelled() {
  std::list<Waiting> gone;
  std::list<Waiting> late;
  std::vector<std::shared_ptr<TaskSink>> impatient;
  bool stopping = false;
  {
    const std::lock_guard lock(mutex_);
    stopping = stopping_;
    impatient.reserve(waiting_.size());  // before anybody is taken out
    const double now = now_s();
    for (auto waiting = waiting_.begin(); waiting != waiting_.end();) {
      Task& task = waiting->task;
      const auto after = std::next(waiting);
      if (stopping || (task.cancel && task.cancel->cancelled())) {
        gone.splice(gone.end(), waiting_, waiting);
        totals_.add(Outcome::kCancelled);
      } else if (task.deadline_s > 0 && now > task.deadline_s) {
        late.splice(late.end(), waiting_, waiting);
        totals_.add(Outcome::kFailed);
      } else if (task.patience_s > 0 && now > task.patience_s) {
        impatient.push_back(task.sink);
        task.patience_s = 0;
      }
      waiting = after;
    }
  }
  for (const std::shared_ptr<TaskSink>& sink : impatient) contain([&] { sink->waits(); });
  for (const Waiting& one : gone) contain([&] { one.task.sink->failed(kCancelled); });
  for (const Waiting& one : late) contain([&] { one.task.sink->late(); });
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    Running* running = slots_[slot].running.get();
    if (running == nullptr || running->ended() || !(stopping || running->cancelled())) continue;
    running->cancel();
    finish(static_cast<int>(slot));
  }
}

bool Scheduler::may_begin(const Waiting& waiting) const {
  if (waiting.loading) return false;
  if (waiting.task.after == 0) return true;
  const auto is_first = [&](uint64_t id) { return id == waiting.task.after; };
  if (std::any_of(waiting_.begin(), waiting_.end(), [&](const Waiting& other) { return is_first(other.id); }))
    return false;
  return std::none_of(slots_.begin(), slots_.end(), [&](const Slot& slot) {
    return slot.running && is_first(slot.running->id()) && slot.running->reading();
  });
}

// The one asked for, or that whose text is the prompt's beginning, or the one that has been free longest.
int Scheduler::free_slot(const Task& task) const {
  int best = -1;
  int64_t best_shared = -1;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (slot.running || (task.slot >= 0 && task.slot != static_cast<int>(i))) continue;
    const auto& held = slot.held;
    int64_t shared = held ? shared_prefix(held->tokens, task.prompt) : 0;
    if (held && shared < static_cast<int64_t>(held->tokens.size()) / 2) shared = 0;  // another text
    const bool better =
        shared > best_shared || (shared == best_shared && slot.used_s < slots_[static_cast<size_t>(best)].used_s);
    if (!better) continue;
    best = static_cast<int>(i);
    best_shared = shared;
  }
  return best;
}

void Scheduler::admit() {
  for (;;) {
    std::optional<Waiting> taken;
    int slot = -1;
    bool loads = false;
    {
      const std::lock_guard lock(mutex_);
      for (auto waiting = waiting_.begin(); waiting != waiting_.end() && !taken; ++waiting) {
        if (!may_begin(*waiting)) continue;
        slot = free_slot(waiting->task);
        if (slot < 0) continue;
        if (loads_first(*waiting)) {
          loads = true;
          continue;
        }
        taken = std::move(*waiting);
        waiting_.erase(waiting);
        ++active_;
        break;
      }
    }
    if (loads) forget_dropped();
    if (!taken) return;
    begin(std::move(*taken), slot);
  }
}

// Is there a file with more of this prompt than memory has? Then the task begins once that is loaded; others need not
// wait for it.
bool Scheduler::loads_first(Waiting& waiting) try {
  const Task& task = waiting.task;
  if (waiting.looked || !task.cache_prompt || task.slot >= 0) return false;
  waiting.looked = true;
  const std::string space = space_of(task);
  const std::optional<DiskCache::Found> found = disk_.find(task.prompt, space);
  if (!found || found->tokens < cache_.longest(task.prompt, space) + kWorthLoading) return false;
  waiting.loading = true;
  // Its memory is that of texts held, also while it is being read.
  cache_.make_room(found->bytes);
  disk_.load(*found, [this, id = waiting.id](Result<HeldText> text) {
    auto taken = std::make_shared<Result<HeldText>>(std::move(text));
    post([this, id, taken] { loaded(id, *taken); });
  });
  return true;
} catch (const std::bad_alloc&) {
  waiting.loading = false;
  return false;
}

// Who waits for it keeps it, also where it is too large to be held.
void Scheduler::loaded(uint64_t id, Result<HeldText>& text) {
  std::shared_ptr<HeldText> held;
  if (text.ok()) contain([&] { held = cache_.put(std::move(*text)); });
  forget_dropped();
  const std::lock_guard lock(mutex_);
  for (Waiting& waiting : waiting_) {
    if (waiting.id != id) continue;
    waiting.loading = false;
    waiting.loaded = held;
  }
}

void Scheduler::begin(Waiting waiting, int slot) {
  Result<std::unique_ptr<Running>> running = start(waiting, slot);
  while (!running.ok() && running.error().kind == ErrorKind::kMemory && make_room()) running = start(waiting, slot);
  if (!running.ok()) {
    {
      const std::lock_guard lock(mutex_);
      --active_;
      totals_.add(Outcome::kFailed);
    }
    return contain([&] { waiting.task.sink->failed(running.error()); });
  }
  double least = std::numeric_limits<double>::max();
  for (const Slot& other : slots_)
    if (other.running) least = std::min(least, other.running->vtime);
  (*running)->vtime = least == std::numeric_limits<double>::max() ? 0 : least;
  (*running)->report().slot = slot;
  slots_[static_cast<size_t>(slot)].running = std::move(*running);
  publish();
}

Result<std::unique_ptr<Running>> Scheduler::start(Waiting& waiting, int slot) try {
  const Task& task = waiting.task;
  SessionOptions options = options_.session;
  options.method = task.method.method;
  EI_ASSIGN_OR_RETURN(options.prefill, policy::prefill_options(task.method));
  EI_ASSIGN_OR_RETURN(options.kv, policy::kv_options(task.method));
  options.keep_whole = task.cache_prompt;
  options.cancel = task.cancel.get();
  const std::string space = space_of(task);
  EI_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, engine_.new_session(options));
  if (task.cache_prompt) {
    EI_ASSIGN_OR_RETURN(Prefix prefix, find_prefix(waiting, slot, space));
    if (prefix.store) EI_RETURN_IF_ERROR(session->adopt(std::move(*prefix.store), prefix.tokens));
  }
  return Running::begin(waiting.id, task, space, std::move(session), now_s() - waiting.since_s);
} catch (const std::exception& error) {
  return error_of(error);
}

Result<Scheduler::Prefix> Scheduler::find_prefix(const Waiting& waiting, int slot, const std::string& space) {
  const Task& task = waiting.task;
  std::shared_ptr<const HeldText> held;
  if (task.slot >= 0) {
    held = slots_[static_cast<size_t>(slot)].held;
    if (held && held->space != space) held = nullptr;
  } else {
    held = cache_.find(task.prompt, space);
  }
  const kv::Store* store = held ? &held->store : nullptr;
  int64_t longest = held ? shared_prefix(held->tokens, task.prompt) : 0;
  if (const HeldText* loaded = waiting.loaded.get(); loaded != nullptr) {
    if (const int64_t shared = shared_prefix(loaded->tokens, task.prompt); shared > longest) {
      longest = shared;
      store = &loaded->store;
    }
  }
  // A task that still runs has read its text, too.
  for (const Slot& other : slots_) {
    if (!other.running || other.running->space() != space || (task.slot >= 0 && task.after == 0)) continue;
    const Session& session = other.running->session();
    const auto exact = static_cast<size_t>(other.running->exact_tokens());
    const int64_t shared = shared_prefix(session.tokens().first(exact), task.prompt);
    if (shared <= longest) continue;
    longest = shared;
    store = &session.store();
  }
  // The last token is read in any case: its logits say how to go on.
  longest = std::min(longest, static_cast<int64_t>(task.prompt.size()) - 1);
  Prefix prefix;
  if (store == nullptr || longest <= 0) return prefix;
  EI_ASSIGN_OR_RETURN(kv::Store fork, store->fork());
  EI_RETURN_IF_ERROR(fork.truncate(static_cast<int32_t>(longest)));
  prefix.store = std::move(fork);
  prefix.tokens.assign(task.prompt.begin(), task.prompt.begin() + longest);
  return prefix;
}

}  // namespace ei::server
