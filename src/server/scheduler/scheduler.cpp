#include "server/scheduler/scheduler.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "base/clock.h"
#include "engine/cache_types.h"
#include "server/exceptions.h"

namespace ei::server {

namespace {
constexpr std::chrono::milliseconds kLookAgain{50};

DiskCacheOptions disk_options(const Engine& engine, const SchedulerOptions& options) {
  DiskCacheOptions disk = options.disk;
  disk.model_hash = engine.model_hash();
  disk.types = row_types(engine, options.session);
  disk.most_waiting_bytes = options.cache_bytes / 4;
  return disk;
}
}  // namespace

kv::StoreConfig row_types(const Engine& engine, const SessionOptions& session) {
  const CacheTypes types = cache_types(engine.backend(), session.key_type, session.value_type);
  return {.key_type = types.keys, .value_type = types.values};
}

Scheduler::Scheduler(const Engine& engine, const SchedulerOptions& options)
    : engine_(engine),
      options_(options),
      batch_(engine),
      cache_(options.cache_bytes, [this](const HeldText& text) { spill(text); }),
      disk_(engine.backend(), disk_options(engine, options)) {
  slots_.resize(static_cast<size_t>(options.slots));
  figures_.resize(slots_.size());
  for (size_t i = 0; i < figures_.size(); ++i) figures_[i].id = static_cast<int>(i);
  thread_ = std::thread([this] { run(); });
  listen_for_routers();
}

Scheduler::~Scheduler() {
  if (options_.events) options_.events->on_listener(nullptr);
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const SlotWork& work : slot_at_work_) work.gone->cancel();
  }
  wake_.notify_all();
  thread_.join();
}

bool Scheduler::submit(std::vector<Task> tasks) {
  // What needs memory comes first: without enough of it for all of them none waits.
  std::list<Waiting> coming;
  for (Task& task : tasks) coming.push_back({.since_s = now_s(), .task = std::move(task)});
  {
    const std::lock_guard lock(mutex_);
    // A request for more answers than the queue holds is taken when nothing else waits.
    if (!waiting_.empty() && waiting_.size() + coming.size() > static_cast<size_t>(options_.queue)) return false;
    uint64_t reader = 0;  // of the prompt that the task before had, too
    const std::vector<int32_t>* prompt = nullptr;
    while (!coming.empty()) {
      Waiting& one = coming.front();
      one.id = next_id_++;
      const bool same = prompt != nullptr && one.task.prompt == *prompt;
      if (!same) reader = one.id;
      if (same) one.task.after = reader;
      prompt = &one.task.prompt;
      // Behind all that are as urgent.
      const auto place = std::find_if(waiting_.begin(), waiting_.end(),
                                      [&](const Waiting& other) { return other.task.priority > one.task.priority; });
      waiting_.splice(place, coming, coming.begin());
    }
  }
  wake_.notify_all();
  return true;
}

void Scheduler::post(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  wake_.notify_all();
}

bool Scheduler::idle() const {
  const std::lock_guard lock(mutex_);
  return waiting_.empty() && active_ == 0 && jobs_.empty() && !at_job_ && slot_waiting_.empty() &&
         slot_at_work_.empty();
}

std::vector<SlotFigures> Scheduler::slots() const {
  const std::lock_guard lock(mutex_);
  return figures_;
}

Totals Scheduler::totals() const {
  const std::lock_guard lock(mutex_);
  Totals totals = totals_;
  totals.running = active_;
  totals.waiting = static_cast<int64_t>(waiting_.size());
  for (const SlotFigures& slot : figures_)
    if (slot.processing) totals.running_tokens += slot.report.held_tokens();
  totals.disk = disk_.figures();
  return totals;
}

// What a turn throws is tried again in the next one.
void Scheduler::run() {
  for (bool goes_on = true; goes_on;) contain([&] { goes_on = turn(); });
}

bool Scheduler::turn() {
  run_jobs();
  work_on_slots();
  drop_cancelled();
  admit();
  if (Running* running = next(); running != nullptr) {
    step(*running);
    return true;
  }
  std::unique_lock lock(mutex_);
  if (stopping_ && slot_at_work_.empty()) return false;
  const auto something = [&] {
    const bool for_slots = slot_at_work_.empty() ? stopping_ || !slot_waiting_.empty() : slot_filed_;
    return for_slots || !jobs_.empty() ||
           std::any_of(waiting_.begin(), waiting_.end(), [&](const Waiting& one) { return may_begin(one); });
  };
  if (waiting_.empty() && slot_waiting_.empty()) {
    wake_.wait(lock, something);
  } else {  // all for the disk, and nobody tells when a client goes or a time is over
    wake_.wait_for(lock, kLookAgain, something);
  }
  return true;
}

void Scheduler::run_jobs() {
  for (;;) {
    std::function<void()> job;
    {
      const std::lock_guard lock(mutex_);
      at_job_ = !jobs_.empty();
      if (!at_job_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    contain(job);
  }
}

// Without memory for new figures those before stay.
void Scheduler::publish() try {
  std::vector<SlotFigures> figures;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    SlotFigures one{.id = static_cast<int>(i)};
    if (const auto& held = slot.held) {
      one.held_tokens = static_cast<int64_t>(held->tokens.size());
      one.held_bytes = held->store.bytes();
    }
    if (slot.running) {
      one.task = slot.running->id();
      one.processing = true;
      one.reading = slot.running->reading();
      one.max_tokens = slot.running->task().generate.max_tokens;
      one.report = slot.running->report();
    }
    figures.push_back(std::move(one));
  }
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < figures.size(); ++i)
    if (figures[i].task == 0) figures[i].task = figures_[i].task;
  figures_ = std::move(figures);
  totals_.cache_bytes = cache_.bytes();
  totals_.cache_tokens = cache_.tokens();
  totals_.cache_texts = static_cast<int64_t>(cache_.size());
} catch (const std::bad_alloc&) {
}

}  // namespace ei::server
