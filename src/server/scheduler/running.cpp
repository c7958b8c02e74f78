#include "server/scheduler/running.h"

#include <exception>
#include <utility>

#include "base/clock.h"
#include "server/exceptions.h"
#include "server/scheduler/probabilities.h"

namespace ei::server {

Running::Running(uint64_t id, Task task, std::string space, std::unique_ptr<Session> session,
                 std::unique_ptr<Generation> generation)
    : id_(id),
      task_(std::move(task)),
      space_(std::move(space)),
      session_(std::move(session)),
      generation_(std::move(generation)),
      start_s_(now_s()) {}

Result<std::unique_ptr<Running>> Running::begin(uint64_t id, Task task, std::string space,
                                                std::unique_ptr<Session> session, double waited_s) {
  const int64_t cached = session->position();
  const std::span<const int32_t> rest = std::span(task.prompt).subspan(static_cast<size_t>(cached));
  EI_ASSIGN_OR_RETURN(auto generation, Generation::begin(*session, rest, task.generate));
  std::unique_ptr<Running> running(
      new Running(id, std::move(task), std::move(space), std::move(session), std::move(generation)));
  TaskReport& report = running->report_;
  report.prompt_tokens = static_cast<int64_t>(running->task_.prompt.size());
  report.cached_tokens = cached;
  report.queue_s = waited_s;
  report.seed = running->generation_->seed();
  return running;
}

void Running::update() {
  const SessionStats& stats = session_->stats();
  report_.read_tokens = report_.prompt_tokens - report_.cached_tokens - generation_->left_to_read();
  report_.generated_tokens = static_cast<int64_t>(generation_->tokens().size());
  report_.density = stats.density();
  report_.compressions = stats.compressions;
  report_.kv_tokens_kept = static_cast<int64_t>(session_->reading().average_slots());
  report_.kv_tokens_total = session_->position();
  report_.kv_bytes = session_->store().bytes() + (session_->has_view() ? session_->reading().bytes() : 0);
}

void Running::trace(bool at_end) {
  if (!task_.heads) return;
  HeadTrace heads = trace_heads(*session_, traced_);
  traced_ += heads.columns.size();
  if (at_end) heads.summary = report::head_summaries(*session_);
  report_.heads = std::make_shared<const HeadTrace>(std::move(heads));
}

// The logits at a position are about the token behind it.
Session::LogitsFn Running::prompt_logits() {
  if (!task_.scores_prompt) return nullptr;
  if (scores_.empty()) scores_.push_back({.token = task_.prompt.front()});
  return [this](int64_t position, std::span<const float> logits) {
    const auto next = static_cast<size_t>(position) + 1;
    if (next >= task_.prompt.size()) return;
    TaskToken token{.token = task_.prompt[next]};
    fill_probabilities(logits, task_.probabilities, token);
    scores_.push_back(std::move(token));
  };
}

void Running::read(int64_t most, const std::function<bool()>& make_room) try {
  if (report_.read_tokens == 0) task_.sink->progress(report_);
  Status read = generation_->read(most, nullptr, prompt_logits());
  while (!read.ok() && read.error().kind == ErrorKind::kMemory && make_room())
    read = generation_->read(most, nullptr, prompt_logits());
  if (!read.ok()) return fail(read.error());
  update();
  report_.prompt_s = now_s() - start_s_;
  trace(/*at_end=*/false);
  task_.sink->progress(report_);
  if (!reading() && task_.scores_prompt) task_.sink->prompt(std::move(scores_));
  if (generation_->stage() == Generation::Stage::kSampling) {
    // The logits are there; whoever waits for the first token need not wait for its next turn.
    const Status sampled = sample();
    if (!sampled.ok()) return fail(sampled.error());
  }
  if (generation_->stage() == Generation::Stage::kFinished) return end();
  late_ = task_.deadline_s > 0 && now_s() > task_.deadline_s && reading();
  if (late_) fail({ErrorKind::kRuntime, TaskSink::kLate});
} catch (const std::exception& error) {
  fail(error_of(error));
}

Status Running::sample() {
  EI_ASSIGN_OR_RETURN(const Generation::Piece piece, generation_->sample());
  const double now = now_s();
  if (first_token_s_ == 0) {
    first_token_s_ = now;
  } else {
    gap_s_ = now - first_token_s_ - report_.generate_s;
  }
  report_.generate_s = now - first_token_s_;
  update();
  if (piece.token == text::kNoToken) {
    // Who scores a prompt counts tokens: the one that ends the answer is one of them.
    if (!task_.scores_prompt) return {};
    TaskToken end{.token = piece.end};
    fill_probabilities(session_->logits(), task_.probabilities, end);
    task_.sink->token(end, report_);
    return {};
  }
  TaskToken token{.token = piece.token, .text = piece.text};
  if (task_.generate.sampler.candidates > 0) {
    fill_drawn_probabilities(generation_->sampler(), token);
  } else if (task_.probabilities > 0) {
    fill_probabilities(session_->logits(), task_.probabilities, token);
  }
  task_.sink->token(token, report_);
  const bool late = task_.line_after_s > 0 && report_.generate_s > task_.line_after_s;
  if (late && piece.text.find('\n') != std::string::npos && generation_->stage() != Generation::Stage::kFinished)
    generation_->stop(Generation::Ending::kLength);
  return {};
}

DecodeBatch::Feed Running::feed(SamplingTime& sampling) {
  own_ = {};
  return {
      .session = session_.get(), .token = generation_->last_token(), .then = [this, &sampling] { choose(sampling); }};
}

// On any thread of the pass.
void Running::choose(SamplingTime& sampling) {
  if (!sampling.begin()) return;
  const OwnTime start = OwnTime::now();
  generation_->choose();
  own_.add_since(start);
  sampling.end(own_.cpu_s);
}

void Running::fed(const Status& status) {
  const OwnTime start = OwnTime::now();
  take_fed(status);
  own_.add_since(start);
}

void Running::take_fed(const Status& status) try {
  const Status taken = generation_->fed(status);
  if (!taken.ok()) return fail(taken.error());
  if (generation_->stage() == Generation::Stage::kSampling && !generation_->chose()) return;
  take_sampled();
} catch (const std::exception& error) {
  fail(error_of(error));
}

void Running::choose_late() try {
  const OwnTime start = OwnTime::now();
  take_sampled();
  own_.add_since(start);
} catch (const std::exception& error) {
  fail(error_of(error));
}

void Running::take_sampled() {
  if (generation_->stage() == Generation::Stage::kSampling) {
    const Status sampled = sample();
    if (!sampled.ok()) return fail(sampled.error());
  }
  if (task_.deadline_s > 0 && now_s() > task_.deadline_s && generation_->stage() != Generation::Stage::kFinished)
    generation_->stop(Generation::Ending::kLength);
  if (generation_->stage() == Generation::Stage::kFinished) end();
}

void Running::end() {
  if (generation_->ending() == Generation::Ending::kInterrupted) return cancel();
  if (generation_->failure()) return fail(*generation_->failure());
  ended_ = true;
  update();
  trace(/*at_end=*/true);
  report_.ending = generation_->ending();
  report_.stopped_by = generation_->stopped_by();
}

void Running::fail(const Error& error) {
  ended_ = true;
  error_ = error;
}

void Running::deliver() {
  if (!error_) {
    try {
      return task_.sink->finished(generation_->rest(), report_);
    } catch (const std::exception& error) {
      fail(error_of(error));
    }
  }
  contain([this] { late_ ? task_.sink->late() : task_.sink->failed(*error_); });
}

void Running::cancel() { fail({ErrorKind::kInterrupted, "the request was cancelled"}); }

}  // namespace ei::server
