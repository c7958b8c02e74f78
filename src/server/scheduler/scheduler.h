// Scheduler: one thread that owns every session and decides whose chunk or token is computed next. The running task
// that has had the least time goes first, so that a long prompt holds nobody up and nobody starves it. Tokens of all
// tasks that are behind their prompts go through the model together.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "engine/decode_batch.h"
#include "engine/engine.h"
#include "server/cache/disk_cache.h"
#include "server/cache/prefix_cache.h"
#include "server/events/event_socket.h"
#include "server/events/kv_events.h"
#include "server/scheduler/figures.h"
#include "server/scheduler/pace.h"
#include "server/scheduler/pass_shares.h"
#include "server/scheduler/running.h"
#include "server/scheduler/slot_work.h"
#include "server/scheduler/task.h"
#include "server/text_thread.h"

namespace ei::server {

struct SchedulerOptions {
  int slots = 4;             // tasks that run at the same time
  int queue = 64;            // tasks that may wait
  SessionOptions session{};  // context, batch, types; the method is the task's
  int64_t cache_bytes = int64_t{2} << 30;
  DiskCacheOptions disk{};                // its model hash is the engine's
  std::shared_ptr<EventSocket> events{};  // tells routers what is held; may be null
  double chunk_s = 0.5;                   // of a prompt, while nobody else waits
  double shared_chunk_s = 0.12;           // and while somebody does
};

// The types of the rows that sessions with these options have.
kv::StoreConfig row_types(const Engine& engine, const SessionOptions& session);

class Scheduler {
 public:
  Scheduler(const Engine& engine, const SchedulerOptions& options);
  // What runs is interrupted.
  ~Scheduler();

  // Takes the tasks of one request, all or none: false when the queue is full. The second and later ones begin where
  // the first has read their common prompt.
  bool submit(std::vector<Task> tasks);
  // Something to be done with what a slot holds, behind what was asked before. Files are written and read on a thread
  // of their own. False when as many wait as requests may.
  bool ask_slot(SlotWork work);

  // No task waits or runs, and nothing is done to a slot.
  bool idle() const;
  std::vector<SlotFigures> slots() const;
  Totals totals() const;
  int64_t most_disk_bytes() const { return disk_.most_bytes(); }
  const SchedulerOptions& options() const { return options_; }
  const Engine& engine() const { return engine_; }

 private:
  struct Waiting {
    uint64_t id = 0;
    double since_s = 0;
    Task task;
    bool looked = false;   // for files
    bool loading = false;  // one of them
    std::shared_ptr<const HeldText> loaded{};
  };
  struct Slot {
    std::unique_ptr<Running> running{};
    std::shared_ptr<HeldText> held{};  // while the cache has it, too
    double used_s = 0;                 // when its last task ended
  };
  struct Prefix {
    std::optional<kv::Store> store{};
    std::vector<int32_t> tokens{};
  };

  void run();
  // False when it was the last one.
  bool turn();
  void run_jobs();
  void drop_cancelled();
  void admit();
  int free_slot(const Task& task) const;
  bool may_begin(const Waiting& waiting) const;  // under the lock
  bool loads_first(Waiting& waiting);
  void loaded(uint64_t id, Result<HeldText>& text);
  void begin(Waiting waiting, int slot);
  Result<std::unique_ptr<Running>> start(Waiting& waiting, int slot);
  Result<Prefix> find_prefix(const Waiting& waiting, int slot, const std::string& space);
  Running* next();
  void step(Running& running);
  void read(Running& running);
  void generate(Running& first);
  void choose_late(Running& running);
  std::vector<Running*> pass_of(Running& first);
  void retry_without_memory(std::span<DecodeBatch::Feed> feeds);
  bool make_room();
  void stepped(std::span<Running* const> tasks);
  int64_t chunk_for(const Running& running) const;
  void finish(int slot);
  void keep_text(int slot, const Running& running);
  void hold(int slot, HeldText text);
  void spill(const HeldText& text);
  void forget_dropped();
  void listen_for_routers();
  void tell_held();
  void tell_all_held();
  void publish();
  void post(std::function<void()> job);
  void work_on_slots();
  void drop_slot_work();
  bool begin_slot_work(SlotWork& work);
  void file_slot(SlotWork& work);  // on the thread for that
  Result<int64_t> end_slot_work(SlotWork& work);

  const Engine& engine_;
  const SchedulerOptions options_;

  // Of the compute thread.
  DecodeBatch batch_;
  std::vector<Slot> slots_;
  PrefixCache cache_;
  KvEvents events_{};
  Pace last_pace_{};  // of whoever read last: where a prompt begins
  PassShares shares_{};

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable wake_;
  std::list<Waiting> waiting_;
  std::deque<std::function<void()>> jobs_;
  std::list<SlotWork> slot_waiting_;
  std::list<SlotWork> slot_at_work_;  // at most one; its thread's while its file is written or read
  bool slot_filed_ = false;           // that is over
  uint64_t next_id_ = 1;
  int64_t active_ = 0;
  bool at_job_ = false;
  bool stopping_ = false;
  std::vector<SlotFigures> figures_;
  Totals totals_;
  DiskCache disk_;            // behind what it posts to
  TextThread slot_files_{1};  // likewise

  std::thread thread_;  // last: it uses everything above
};

}  // namespace ei::server
