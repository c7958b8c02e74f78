// Running: a task that has a session. One step reads a chunk of its prompt or makes a token.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/decode_batch.h"
#include "engine/generation.h"
#include "engine/session.h"
#include "server/scheduler/pace.h"
#include "server/scheduler/pass_shares.h"
#include "server/scheduler/task.h"

namespace ei::server {

class Running {
 public:
  // `session` holds the first `cached` tokens of the prompt.
  static Result<std::unique_ptr<Running>> begin(uint64_t id, Task task, std::string space,
                                                std::unique_ptr<Session> session, double waited_s);

  uint64_t id() const { return id_; }
  const Task& task() const { return task_; }
  const std::string& space() const { return space_; }
  Session& session() { return *session_; }
  const Session& session() const { return *session_; }
  const TaskReport& report() const { return report_; }
  TaskReport& report() { return report_; }
  bool reading() const { return generation_->stage() == Generation::Stage::kReading; }
  bool ended() const { return ended_; }
  bool failed() const { return error_.has_value(); }
  // Leading tokens whose keys and values are what full attention gives, so that others may begin with them: not those
  // that were generated while only some pages were read.
  int64_t exact_tokens() const {
    if (!session_->store().exact()) return 0;
    const int64_t all = session_->store().next_position();
    return session_->stats().paged_tokens > 0 ? std::min(all, report_.prompt_tokens) : all;
  }
  bool cancelled() const { return task_.cancel && task_.cancel->cancelled(); }
  int64_t left_to_read() const { return generation_->left_to_read(); }

  // A chunk of at most `most` tokens; behind the last one the first token of the answer is sent at once. As long as
  // there is no memory for it and `make_room` has some to give, it is tried again.
  void read(int64_t most, const std::function<bool()>& make_room);
  // Behind its prompt: the token that goes through the model next, and what is done with what came of it. The next one
  // is sampled and sent, unless the samplers of the pass (`sampling`, until fed()) have had their time.
  DecodeBatch::Feed feed(SamplingTime& sampling);
  void fed(const Status& status);
  // Then it is done in a turn of its own.
  bool owes_token() const { return !ended_ && generation_->stage() == Generation::Stage::kSampling; }
  void choose_late();
  const OwnTime& own_time() const { return own_; }
  // Between the last step's token and the one before it; once.
  std::optional<double> take_gap() { return std::exchange(gap_s_, std::nullopt); }
  void fail(const Error& error);
  // Nobody waits for it any more.
  void cancel();
  // Once it has ended: tells the sink. The scheduler has put its figures in order by then, so that whoever asks for
  // them next finds them.
  void deliver();

  double vtime = 0;  // the time it has had, counted from where others stood when it came
  Pace pace{};       // of its prompt

 private:
  Running(uint64_t id, Task task, std::string space, std::unique_ptr<Session> session,
          std::unique_ptr<Generation> generation);
  void update();
  Session::LogitsFn prompt_logits();
  void trace(bool at_end);
  Status sample();
  void choose(SamplingTime& sampling);
  void take_fed(const Status& status);
  void take_sampled();
  void end();

  uint64_t id_;
  Task task_;
  std::string space_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Generation> generation_;
  TaskReport report_{};
  OwnTime own_{};
  double start_s_ = 0;
  double first_token_s_ = 0;
  std::optional<double> gap_s_{};
  std::vector<TaskToken> scores_{};  // of the prompt, as far as it has been read
  size_t traced_ = 0;                // segments
  bool ended_ = false;
  std::optional<Error> error_{};
  bool late_ = false;  // and that is why
};

}  // namespace ei::server
