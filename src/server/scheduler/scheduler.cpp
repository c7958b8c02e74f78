#include "server/scheduler/scheduler.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/clock.h"

namespace ei::server {

namespace {
constexpr int64_t kRowsTogether = 64;  // chunks are cut in multiples that kernels like
constexpr int64_t kFirstChunk = 256;   // before anything is known about this model's pace
// A token's time grows with the text in front of it, by less than this from chunk to chunk.
constexpr double kSlower = 1.05;
// Of the time of a pass over the weights for tokens. Behind a chunk of somebody's prompt the first tokens find cold
// caches: with less than the whole a stream keeps half of its speed all the same.
constexpr double kTokenCharge = 0.75;

const Error kDeadline{ErrorKind::kRuntime, "the request's time was over before its first token"};
}  // namespace

Scheduler::Scheduler(const Engine& engine, const SchedulerOptions& options)
    : engine_(engine), options_(options), batch_(engine), cache_(options.cache_bytes) {
  slots_.resize(static_cast<size_t>(options.slots));
  figures_.resize(slots_.size());
  for (size_t i = 0; i < figures_.size(); ++i) figures_[i].id = static_cast<int>(i);
  thread_ = std::thread([this] { run(); });
}

Scheduler::~Scheduler() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

bool Scheduler::submit(std::vector<Task> tasks) {
  {
    const std::lock_guard lock(mutex_);
    // A request for more answers than the queue holds is taken when nothing else waits.
    if (!waiting_.empty() && waiting_.size() + tasks.size() > static_cast<size_t>(options_.queue)) return false;
    uint64_t reader = 0;  // of the prompt that the task before had, too
    for (size_t i = 0; i < tasks.size(); ++i) {
      const bool same = i > 0 && tasks[i].prompt == waiting_.back().task.prompt;
      if (!same) reader = next_id_;
      if (same) tasks[i].after = reader;
      waiting_.push_back({.id = next_id_++, .since_s = now_s(), .task = std::move(tasks[i])});
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
  return waiting_.empty() && active_ == 0;
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
  return totals;
}

void Scheduler::run() {
  for (;;) {
    run_jobs();
    drop_cancelled();
    admit();
    if (Running* running = next(); running != nullptr) {
      step(*running);
      continue;
    }
    std::unique_lock lock(mutex_);
    if (stopping_) return;
    wake_.wait(lock, [&] { return stopping_ || !waiting_.empty() || !jobs_.empty(); });
  }
}

void Scheduler::run_jobs() {
  for (;;) {
    std::function<void()> job;
    {
      const std::lock_guard lock(mutex_);
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

void Scheduler::drop_cancelled() {
  std::list<Waiting> dropped;
  bool stopping = false;
  {
    const std::lock_guard lock(mutex_);
    stopping = stopping_;
    const double now = now_s();
    for (auto waiting = waiting_.begin(); waiting != waiting_.end();) {
      const Task& task = waiting->task;
      const bool late = task.deadline_s > 0 && now > task.deadline_s;
      const auto after = std::next(waiting);
      if (stopping || late || (task.cancel && task.cancel->cancelled()))
        dropped.splice(dropped.end(), waiting_, waiting);
      waiting = after;
    }
    totals_.cancelled += static_cast<int64_t>(dropped.size());
  }
  for (const Waiting& waiting : dropped) {
    const bool gone = stopping || (waiting.task.cancel && waiting.task.cancel->cancelled());
    waiting.task.sink->failed(gone ? Error{ErrorKind::kInterrupted, "the request was cancelled"} : kDeadline);
  }
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    Running* running = slots_[slot].running.get();
    if (running == nullptr || running->ended() || !(stopping || running->cancelled())) continue;
    running->cancel();
    finish(static_cast<int>(slot));
  }
}

bool Scheduler::may_begin(const Waiting& waiting) const {
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
    {
      const std::lock_guard lock(mutex_);
      for (auto waiting = waiting_.begin(); waiting != waiting_.end() && !taken; ++waiting) {
        if (!may_begin(*waiting)) continue;
        slot = free_slot(waiting->task);
        if (slot < 0) continue;
        taken = std::move(*waiting);
        waiting_.erase(waiting);
        ++active_;
        break;
      }
    }
    if (!taken) return;
    begin(std::move(*taken), slot);
  }
}

void Scheduler::begin(Waiting waiting, int slot) {
  const std::shared_ptr<TaskSink> sink = waiting.task.sink;
  Result<std::unique_ptr<Running>> running = start(waiting, slot);
  // What is held for others makes room for who is here.
  while (!running.ok() && running.error().kind == ErrorKind::kMemory && cache_.drop_oldest()) {
    forget_dropped();
    running = start(waiting, slot);
  }
  if (!running.ok()) {
    sink->failed(running.error());
    const std::lock_guard lock(mutex_);
    --active_;
    ++totals_.failed;
    return;
  }
  double least = std::numeric_limits<double>::max();
  for (const Slot& other : slots_)
    if (other.running) least = std::min(least, other.running->vtime);
  (*running)->vtime = least == std::numeric_limits<double>::max() ? 0 : least;
  (*running)->report().slot = slot;
  slots_[static_cast<size_t>(slot)].running = std::move(*running);
  publish();
}

Result<std::unique_ptr<Running>> Scheduler::start(Waiting& waiting, int slot) {
  const Task& task = waiting.task;
  SessionOptions options = options_.session;
  options.method = task.method.method;
  EI_ASSIGN_OR_RETURN(options.prefill, policy::prefill_options(task.method));
  EI_ASSIGN_OR_RETURN(options.kv, policy::kv_options(task.method));
  options.keep_whole = task.cache_prompt;
  options.cancel = task.cancel.get();
  const bool sparse = policy::reads_sparsely(task.method);
  const std::string space = sparse ? task.method.method + ":" + policy::options_text(task.method) : "";
  EI_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, engine_.new_session(options));
  if (task.cache_prompt) {
    EI_ASSIGN_OR_RETURN(Prefix prefix, find_prefix(task, slot, space));
    if (prefix.store) EI_RETURN_IF_ERROR(session->adopt(std::move(*prefix.store), prefix.tokens));
  }
  return Running::begin(waiting.id, task, space, std::move(session), now_s() - waiting.since_s);
}

Result<Scheduler::Prefix> Scheduler::find_prefix(const Task& task, int slot, const std::string& space) {
  std::shared_ptr<const HeldText> held;
  if (task.slot >= 0) {
    held = slots_[static_cast<size_t>(slot)].held;
    if (held && held->space != space) held = nullptr;
  } else {
    held = cache_.find(task.prompt, space);
  }
  const kv::Store* store = held ? &held->store : nullptr;
  int64_t longest = held ? shared_prefix(held->tokens, task.prompt) : 0;
  // A task that still runs has read its text, too.
  for (const Slot& other : slots_) {
    if (!other.running || other.running->space() != space || (task.slot >= 0 && task.after == 0)) continue;
    const Session& session = other.running->session();
    if (!session.store().exact()) continue;
    const auto whole = static_cast<size_t>(session.store().next_position());
    const int64_t shared = shared_prefix(session.tokens().first(whole), task.prompt);
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

Running* Scheduler::next() {
  Running* best = nullptr;
  for (const Slot& slot : slots_) {
    if (!slot.running) continue;
    // Of equals the one that came last: it is new, and somebody waits for its first token.
    const bool earlier = best == nullptr || slot.running->vtime < best->vtime ||
                         (slot.running->vtime == best->vtime && slot.running->id() > best->id());
    if (earlier) best = slot.running.get();
  }
  return best;
}

int64_t Scheduler::chunk_for(const Running& running) const {
  bool others = false;
  for (const Slot& slot : slots_) others = others || (slot.running && slot.running.get() != &running);
  {
    const std::lock_guard lock(mutex_);
    others = others || !waiting_.empty();
  }
  const double pace = running.token_s > 0 ? running.token_s : prompt_token_s_;
  if (pace <= 0) return kFirstChunk;
  const double seconds = others ? options_.shared_chunk_s : options_.chunk_s;
  const auto tokens = static_cast<int64_t>(std::min(seconds / pace, 1e6));
  return std::max<int64_t>(tokens / kRowsTogether, 1) * kRowsTogether;
}

void Scheduler::step(Running& running) { running.reading() ? read(running) : generate(running); }

void Scheduler::read(Running& running) {
  const double start = now_s();
  const int64_t before = running.left_to_read();
  running.read(chunk_for(running));
  const double took = now_s() - start;
  running.vtime += took;
  const int64_t read = before - running.left_to_read();
  if (read > 0) {
    // Every chunk costs something whatever its length, most on a busy machine. If slow chunks were believed at once,
    // they would be cut shorter and be slower still: the best pace counts, and is forgotten slowly.
    const double took_each = took / static_cast<double>(read);
    running.token_s = running.token_s > 0 ? std::min(took_each, running.token_s * kSlower) : took_each;
    prompt_token_s_ = running.token_s;
  }
  Running* const one[] = {&running};
  stepped(one);
}

// A token of `first`, and of all others that are behind their prompts: they cost little more together.
void Scheduler::generate(Running& first) {
  std::vector<Running*> tasks = {&first};
  for (const Slot& slot : slots_) {
    Running* other = slot.running.get();
    if (other != nullptr && other != &first && !other->reading()) tasks.push_back(other);
  }
  std::sort(tasks.begin() + 1, tasks.end(), [](const Running* a, const Running* b) { return a->vtime < b->vtime; });
  if (tasks.size() > DecodeBatch::kMost) tasks.resize(DecodeBatch::kMost);
  const double start = now_s();
  std::vector<DecodeBatch::Feed> feeds;
  for (Running* task : tasks) feeds.push_back(task->feed());
  batch_.decode(feeds);
  for (size_t i = 0; i < tasks.size(); ++i) tasks[i]->fed(feeds[i].status);
  // Each is charged with the whole pass: it would have taken as long without the others.
  const double took = now_s() - start;
  for (Running* task : tasks) task->vtime += took * kTokenCharge;
  stepped(tasks);
}

void Scheduler::stepped(std::span<Running* const> tasks) {
  {
    const std::lock_guard lock(mutex_);
    ++totals_.rounds;
    totals_.round_tasks += static_cast<int64_t>(tasks.size());
  }
  bool ended = false;
  for (const Running* task : tasks) {
    if (!task->ended()) continue;
    ended = true;
    finish(task->report().slot);
  }
  if (!ended) publish();
}

void Scheduler::finish(int slot_number) {
  Slot& slot = slots_[static_cast<size_t>(slot_number)];
  const std::unique_ptr<Running> running = std::move(slot.running);
  slot.used_s = now_s();
  const Session& session = running->session();
  if (!running->failed() && running->task().cache_prompt && session.store().exact()) {
    if (Result<kv::Store> store = session.store().fork(); store.ok()) {
      const auto whole = static_cast<size_t>(store->next_position());
      const std::span<const int32_t> tokens = session.tokens().first(whole);
      hold(slot_number,
           {.tokens = {tokens.begin(), tokens.end()}, .store = std::move(*store), .space = running->space()});
    }
  }
  {
    const TaskReport& report = running->report();
    const std::lock_guard lock(mutex_);
    --active_;
    ++totals_.requests;
    if (running->cancelled()) {
      ++totals_.cancelled;
    } else if (running->failed()) {
      ++totals_.failed;
    }
    totals_.asked_tokens += report.prompt_tokens;
    totals_.prompt_tokens += report.read_tokens;
    totals_.cached_tokens += report.cached_tokens;
    totals_.generated_tokens += report.generated_tokens;
    totals_.prompt_s += report.prompt_s;
    totals_.generate_s += report.generate_s;
    totals_.queue_sum_s += report.queue_s;
    totals_.density_sum += report.density;
    totals_.compressions += report.compressions;
    if (report.generated_tokens > 0) {
      ++totals_.first_tokens;
      totals_.first_token_sum_s += report.queue_s + report.prompt_s;
    }
    totals_.longest = std::max(totals_.longest, session.position());
    totals_.cache_bytes = cache_.bytes();
    totals_.cache_texts = static_cast<int64_t>(cache_.size());
  }
  publish();
  running->deliver();
}

void Scheduler::hold(int slot, HeldText text) {
  slots_[static_cast<size_t>(slot)].held = nullptr;
  slots_[static_cast<size_t>(slot)].held = cache_.put(std::move(text));
  forget_dropped();
}

void Scheduler::forget_dropped() {
  for (Slot& slot : slots_)
    if (slot.held && !cache_.has(slot.held)) slot.held = nullptr;
}

void Scheduler::publish() {
  std::vector<SlotFigures> figures;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    SlotFigures one{.id = static_cast<int>(i)};
    if (const auto& held = slot.held) one.held_tokens = static_cast<int64_t>(held->tokens.size());
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
}

}  // namespace ei::server
