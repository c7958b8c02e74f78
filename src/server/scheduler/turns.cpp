// Whose turn it is: the running task that has had the least time reads a chunk of its prompt, or a token of each that
// is behind its prompt goes through the model.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "report/head_summary.h"
#include "server/exceptions.h"
#include "server/scheduler/scheduler.h"

namespace ei::server {

namespace {
// Of the time of a pass over the weights for tokens. Behind a chunk of somebody's prompt the first tokens find cold
// caches: with less than the whole a stream keeps half of its speed all the same.
constexpr double kTokenCharge = 0.65;

// A step of priority halves what a second costs, or doubles it.
double charge_of(const Running& running) { return std::exp2(std::clamp(running.task().priority, -4, 4)); }
}  // namespace

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
  const Pace& pace = running.pace.known() ? running.pace : last_pace_;
  return pace.rows(others ? options_.shared_chunk_s : options_.chunk_s, others);
}

void Scheduler::step(Running& running) {
  const int slot = running.report().slot;
  try {
    running.reading() ? read(running) : generate(running);
  } catch (const std::exception& error) {
    // It might throw for ever.
    if (slots_[static_cast<size_t>(slot)].running.get() != &running) return;
    running.fail(error_of(error));
    finish(slot);
  }
}

void Scheduler::read(Running& running) {
  const double start = now_s();
  const int64_t before = running.left_to_read();
  running.read(chunk_for(running), [this] { return make_room(); });
  const double took = now_s() - start;
  running.vtime += took * charge_of(running);
  running.pace.took(before - running.left_to_read(), took);
  if (running.pace.known()) last_pace_ = running.pace;
  Running* const one[] = {&running};
  stepped(one);
}

// A token of `first`, and of all others that are behind their prompts: they cost little more together.
std::vector<Running*> Scheduler::pass_of(Running& first) {
  std::vector<Running*> others;
  for (const Slot& slot : slots_) {
    Running* other = slot.running.get();
    if (other != nullptr && other != &first && !other->reading() && !other->owes_token()) others.push_back(other);
  }
  std::sort(others.begin(), others.end(), [](const Running* a, const Running* b) { return a->vtime < b->vtime; });
  std::vector<Running*> tasks = {&first};
  PassShares::Guests guests(shares_, first.own_time());
  for (Running* other : others)
    if (tasks.size() < DecodeBatch::kMost && guests.joins(other->own_time())) tasks.push_back(other);
  return tasks;
}

void Scheduler::generate(Running& first) {
  if (first.owes_token()) return choose_late(first);
  const std::vector<Running*> tasks = pass_of(first);
  const double start = now_s();
  SamplingTime sampling;
  std::vector<DecodeBatch::Feed> feeds;
  std::vector<OwnTime> own(tasks.size());  // all memory before the pass
  feeds.reserve(tasks.size());
  for (Running* task : tasks) feeds.push_back(task->feed(sampling));
  try {
    batch_.decode(feeds);
    retry_without_memory(feeds);
  } catch (const std::exception& error) {
    // Whose token went through the model nobody knows.
    for (DecodeBatch::Feed& feed : feeds) feed.status = error_of(error);
  }
  for (size_t i = 0; i < tasks.size(); ++i) {
    tasks[i]->fed(feeds[i].status);
    own[i] = tasks[i]->own_time();
  }
  shares_.saw(sampling.most_at_once());
  shares_.took(now_s() - start, own);
  for (Running* task : tasks) task->vtime += shares_.charge(task->own_time(), kTokenCharge) * charge_of(*task);
  stepped(tasks);
}

// The samplers of its last pass had had their time before it was this one's turn.
void Scheduler::choose_late(Running& running) {
  const double start = now_s();
  running.choose_late();
  running.vtime += (now_s() - start) * charge_of(running);
  Running* const one[] = {&running};
  stepped(one);
}

// Who found no room for a token has another try once something held was given up; the failed one changed nothing.
void Scheduler::retry_without_memory(std::span<DecodeBatch::Feed> feeds) {
  for (DecodeBatch::Feed& feed : feeds) {
    while (!feed.status.ok() && feed.status.error().kind == ErrorKind::kMemory && make_room())
      batch_.decode({&feed, 1});
  }
}

// What is held for others makes room for who is here.
bool Scheduler::make_room() {
  bool dropped = false;
  contain([&] { dropped = cache_.drop_oldest(); });
  forget_dropped();
  return dropped;
}

void Scheduler::stepped(std::span<Running* const> tasks) {
  {
    const std::lock_guard lock(mutex_);
    ++totals_.rounds;
    totals_.round_tasks += static_cast<int64_t>(tasks.size());
    for (Running* task : tasks)
      if (const std::optional<double> gap = task->take_gap()) totals_.token_seconds.add(*gap);
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
  if (!running->failed() && running->task().cache_prompt) keep_text(slot_number, *running);
  const Outcome outcome = running->cancelled() ? Outcome::kCancelled
                          : running->failed()  ? Outcome::kFailed
                                               : Outcome::kAnswered;
  std::vector<report::HeadSummary> heads;
  contain([&] { heads = report::head_summaries(session); });
  {
    const std::lock_guard lock(mutex_);
    --active_;
    totals_.add(running->report(), outcome);
    totals_.add(heads);
    totals_.longest = std::max(totals_.longest, session.position());
  }
  publish();
  running->deliver();
}

// In memory and, where there is a folder, on disk. No memory for it is no reason to lose an answer.
void Scheduler::keep_text(int slot, const Running& running) try {
  const int64_t exact = running.exact_tokens();
  if (exact == 0) return;
  const std::span<const int32_t> tokens = running.session().tokens().first(static_cast<size_t>(exact));
  const auto text = [&]() -> Result<HeldText> {
    EI_ASSIGN_OR_RETURN(kv::Store store, running.session().store().fork());
    EI_RETURN_IF_ERROR(store.truncate(static_cast<int32_t>(exact)));
    return HeldText{.tokens = {tokens.begin(), tokens.end()}, .store = std::move(store), .space = running.space()};
  };
  if (Result<HeldText> held = text(); held.ok()) hold(slot, std::move(*held));
  if (disk_.most_bytes() == 0) return;
  if (Result<HeldText> copy = text(); copy.ok()) disk_.put(std::move(*copy));
} catch (const std::exception&) {
  forget_dropped();
}

void Scheduler::hold(int slot, HeldText text) {
  slots_[static_cast<size_t>(slot)].held = nullptr;
  slots_[static_cast<size_t>(slot)].held = cache_.put(std::move(text));
  forget_dropped();
}

// What memory gives up goes to disk, if it is not there: it had been written unless too much waited to be.
void Scheduler::spill(const HeldText& text) {
  if (disk_.most_bytes() == 0) return;
  contain([&] {
    if (Result<kv::Store> store = text.store.fork(); store.ok())
      disk_.put({.tokens = text.tokens, .store = std::move(*store), .space = text.space});
  });
}

void Scheduler::forget_dropped() {
  for (Slot& slot : slots_)
    if (slot.held && !cache_.has(slot.held)) slot.held = nullptr;
  tell_held();
}

}  // namespace ei::server
