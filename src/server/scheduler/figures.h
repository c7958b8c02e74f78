// What the scheduler tells about itself: the data of /slots and /metrics.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/head_summary.h"
#include "server/cache/disk_cache.h"
#include "server/scheduler/histogram.h"
#include "server/scheduler/task.h"

namespace ei::server {

struct SlotFigures {
  int id = 0;
  uint64_t task = 0;  // the last one
  bool processing = false;
  bool reading = false;     // its prompt
  int64_t held_tokens = 0;  // what a prompt could begin with
  int64_t held_bytes = 0;   // its pages, also those that others share
  int64_t max_tokens = -1;  // of the running task
  TaskReport report{};      // of the running task
};

enum class Outcome { kAnswered, kFailed, kCancelled };

// Since the server began.
struct Totals {
  // A task that has ended; what the heads did where its prompt was read sparsely.
  void add(const TaskReport& report, Outcome outcome);
  void add(Outcome outcome);  // without having begun
  void add(const std::vector<report::HeadSummary>& heads);

  int64_t requests = 0;  // tasks that ended
  int64_t failed = 0;
  int64_t cancelled = 0;      // by their clients, or by the server's end
  int64_t prompt_tokens = 0;  // read, without cached ones
  int64_t cached_tokens = 0;
  int64_t asked_tokens = 0;  // of prompts
  int64_t generated_tokens = 0;
  double prompt_s = 0;
  double generate_s = 0;
  int64_t rounds = 0;       // passes over the weights: chunks and rounds of tokens
  int64_t round_tasks = 0;  // tasks in them
  int64_t longest = 0;      // most tokens that a task held
  int64_t compressions = 0;
  Histogram first_token_seconds = seconds_histogram();  // since it came; like the next ones without its text's parsing
  Histogram token_seconds = seconds_histogram();        // between the tokens of an answer
  Histogram whole_seconds = seconds_histogram();
  Histogram queue_seconds = seconds_histogram();
  Histogram density = share_histogram();
  Histogram kv_kept = share_histogram();    // tokens that were still read at the end, of those of the text
  Histogram entropy = entropy_histogram();  // of heads that chose what to read, at the end of the text
  int64_t running = 0;                      // now
  int64_t running_tokens = 0;               // of these, in their caches
  int64_t waiting = 0;
  int64_t cache_bytes = 0;   // shared pages once
  int64_t cache_tokens = 0;  // shared beginnings once
  int64_t cache_texts = 0;
  DiskCache::Figures disk{};
};

}  // namespace ei::server
