// Task: one answer that somebody wants, and TaskSink: where its text goes. Plain data between the API and the
// scheduler.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "engine/generate.h"
#include "engine/generation.h"
#include "policy/method_choice.h"
#include "server/scheduler/head_trace.h"

namespace ei::server {

struct TokenProbability {
  int32_t token = 0;
  float log_probability = 0;
};

// What one generated token brings.
struct TaskToken {
  int32_t token = text::kNoToken;
  std::string text{};                     // that may be shown now; may be empty
  std::optional<TokenProbability> own{};  // where Task::probabilities asks for it
  std::vector<TokenProbability> top{};    // the likeliest, in descending order
};

// What an answer cost and did so far.
struct TaskReport {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of them, not read again
  int64_t read_tokens = 0;    // of them, read so far
  int64_t generated_tokens = 0;
  double queue_s = 0;
  double prompt_s = 0;         // from the first chunk's begin to the last one's end
  double generate_s = 0;       // from the first token to the last
  double density = 1;          // of the attention while the prompt was read
  int64_t kv_tokens_kept = 0;  // that generation reads, per layer and kv_head
  int64_t kv_tokens_total = 0;
  int64_t kv_bytes = 0;
  int64_t compressions = 0;
  int slot = -1;
  uint32_t seed = 0;
  Generation::Ending ending = Generation::Ending::kNone;
  std::string stopped_by{};
  std::shared_ptr<const HeadTrace> heads{};  // where Task::heads asks for it

  // Of the text, before anything of it is dropped.
  int64_t held_tokens() const { return cached_tokens + read_tokens + generated_tokens; }
};

// Calls come on the compute thread, in this order: waits, progress*, token*, then finished, failed or late, once.
class TaskSink {
 public:
  virtual ~TaskSink() = default;
  // Where Task::patience_s is over before it begins.
  virtual void waits() = 0;
  virtual void progress(const TaskReport& report) = 0;
  virtual void token(const TaskToken& token, const TaskReport& report) = 0;
  // Where Task::scores_prompt asks for it, before the first token: every token of the prompt, the first without
  // probabilities.
  virtual void prompt(std::vector<TaskToken> tokens) = 0;
  // `rest`: text that had been held back for a stop string.
  virtual void finished(const std::string& rest, const TaskReport& report) = 0;
  virtual void failed(const Error& error) = 0;
  // Task::deadline_s was over before the first token.
  virtual void late() { failed({ErrorKind::kRuntime, kLate}); }

  static constexpr const char* kLate = "the request's time was over before its first token";
};

struct Task {
  std::vector<int32_t> prompt{};
  GenerateOptions generate{};
  policy::MethodChoice method{};
  bool cache_prompt = true;    // take a prefix that is held, and hold this text afterwards
  int slot = -1;               // of this slot alone; -1: any
  int probabilities = 0;       // how many to report for each token
  bool scores_prompt = false;  // the same for the tokens of the prompt; needs cache_prompt = false
  bool heads = false;          // trace the heads while the prompt is read
  int priority = 0;            // lower ones begin first; each step down doubles the share of the time, -4 to 4 count
  double deadline_s = 0;       // by the clock of now_s(); 0: none
  double patience_s = 0;       // by the same clock: a task that still waits then says so, once; 0: never
  double line_after_s = 0;     // a line that ends so long after the first token is the last; 0: none
  uint64_t after = 0;          // begins when that task's prompt has been read, whose cache it shares
  std::shared_ptr<CancelToken> cancel{};
  std::shared_ptr<TaskSink> sink{};
};

}  // namespace ei::server
