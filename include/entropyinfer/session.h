// Session: one text and its KV cache. For one thread at a time, but for cancel().
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "entropyinfer/options.h"
#include "entropyinfer/result.h"

namespace entropyinfer {

class Session {
 public:
  using ProgressFn = std::function<bool(int64_t done, int64_t total)>;  // false: stop
  // The logits [vocab] of the token at `position`; valid during the call. False: stop.
  using LogitsFn = std::function<bool(int64_t position, const float* logits, size_t vocab)>;

  // Reads `prompt` behind what the session holds (GenerateOptions::whole_prompt: from the beginning) and answers.
  Result<Answer> generate(const Tokens& prompt, const GenerateOptions& options = {}) {
    std::vector<const char*> stops;
    for (const std::string& stop : options.stop) stops.push_back(stop.c_str());
    Calls calls;
    calls.on_text = options.on_text;
    calls.on_progress = options.on_progress;
    EiGenerateOptions given{};
    given.size = sizeof given;
    given.max_tokens = options.max_tokens;
    given.seed = options.seed;
    given.temp = options.temp;
    given.top_k = options.top_k;
    given.top_p = options.top_p;
    given.min_p = options.min_p;
    given.repeat_penalty = options.repeat_penalty;
    given.stop = stops.data();
    given.num_stop = stops.size();
    given.grammar = detail::text_or_null(options.grammar);
    given.json_schema = detail::text_or_null(options.json_schema);
    given.ignore_eos = options.ignore_eos ? 1 : 0;
    given.whole_prompt = options.whole_prompt ? 1 : 0;
    given.on_text = [](void* user, const char* text, size_t bytes) {
      auto* self = static_cast<Calls*>(user);
      return self->run([&] { return !self->on_text || self->on_text({text, bytes}); });
    };
    given.on_progress = progress_call;
    given.user = &calls;
    EiAnswer made{};
    made.size = sizeof made;
    const EiStatus status = ei_generate(handle_.get(), prompt.data(), prompt.size(), &given, &made);
    calls.rethrow();
    if (status != EI_OK) return detail::failure(status);
    Answer answer;
    answer.text.assign(made.text, made.text_bytes);
    answer.tokens.assign(made.tokens, made.tokens + made.num_tokens);
    answer.finish_reason = made.finish_reason;
    answer.cached_tokens = made.cached_tokens;
    answer.ttft_s = made.ttft_s;
    answer.seed = made.seed;
    return answer;
  }

  Status prefill(const Tokens& tokens, ProgressFn on_progress = nullptr) {
    Calls calls;
    calls.on_progress = std::move(on_progress);
    const EiStatus status = ei_session_prefill(handle_.get(), tokens.data(), tokens.size(), progress_call, &calls);
    calls.rethrow();
    return detail::checked(status);
  }
  // The same, with the logits of every position.
  Status evaluate(const Tokens& tokens, LogitsFn on_logits) {
    Calls calls;
    calls.on_logits = std::move(on_logits);
    const EiLogitsFn call = [](void* user, int64_t position, const float* logits, size_t vocab) {
      auto* self = static_cast<Calls*>(user);
      return self->run([&] { return self->on_logits(position, logits, vocab); });
    };
    const EiStatus status = ei_session_evaluate(handle_.get(), tokens.data(), tokens.size(), call, &calls);
    calls.rethrow();
    return detail::checked(status);
  }
  Status decode(int32_t token) { return detail::checked(ei_session_decode(handle_.get(), token)); }
  // [vocab] of the last token; empty before the first.
  std::vector<float> logits() const {
    size_t vocab = 0;
    const float* values = ei_session_logits(handle_.get(), &vocab);
    return {values, values + vocab};
  }
  int64_t position() const { return ei_session_position(handle_.get()); }
  int64_t context() const { return ei_session_context(handle_.get()); }
  // Forgets everything from `position` on.
  Status truncate(int64_t position) { return detail::checked(ei_session_truncate(handle_.get(), position)); }
  // From any thread: ends the call that is running, or the next one.
  void cancel() { ei_session_cancel(handle_.get()); }

  EiStats stats() const {
    EiStats stats{};
    stats.size = sizeof stats;
    ei_session_stats(handle_.get(), &stats);
    return stats;
  }

  struct PlanShape {
    int64_t segments = 0;  // 0: the layer read everything
    int64_t segment_tokens = 0;
    int64_t block_tokens = 0;
  };
  Result<PlanShape> plan_shape(int layer) const {
    PlanShape shape;
    const EiStatus status =
        ei_plan_shape(handle_.get(), layer, &shape.segments, &shape.segment_tokens, &shape.block_tokens);
    if (status != EI_OK) return detail::failure(status);
    return shape;
  }
  // What was measured and chosen in the planned segment `index`.
  Result<EiHeadPlan> plan(int layer, int64_t index, int kv_head) const {
    EiHeadPlan plan{};
    plan.size = sizeof plan;
    const EiStatus status = ei_plan(handle_.get(), layer, index, kv_head, &plan);
    if (status != EI_OK) return detail::failure(status);
    return plan;
  }

 private:
  friend class Engine;
  struct Free {
    void operator()(EiSession* session) const { ei_session_free(session); }
  };
  // What the library calls back. An exception waits here until the library has returned.
  struct Calls {
    std::function<bool(std::string_view)> on_text{};
    ProgressFn on_progress{};
    LogitsFn on_logits{};
    std::exception_ptr thrown{};

    // Nonzero: stop.
    template <typename Body>
    int run(const Body& body) noexcept {
      try {
        return thrown == nullptr && body() ? 0 : 1;
      } catch (...) {
        thrown = std::current_exception();
        return 1;
      }
    }
    void rethrow() const {
      if (thrown != nullptr) std::rethrow_exception(thrown);
    }
  };
  static int progress_call(void* user, int64_t done, int64_t total) {
    auto* self = static_cast<Calls*>(user);
    return self->run([&] { return !self->on_progress || self->on_progress(done, total); });
  }

  explicit Session(EiSession* handle) : handle_(handle) {}

  std::unique_ptr<EiSession, Free> handle_;
};

}  // namespace entropyinfer
