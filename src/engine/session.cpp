#include "engine/session.h"

#include <algorithm>

#include "base/clock.h"
#include "engine/session_state.h"

namespace ei {

namespace {
constexpr int64_t kLogitsBytes = int64_t{64} << 20;
}

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::~Session() = default;

Status Session::prefill(std::span<const int32_t> tokens, const ProgressFn& progress) {
  return evaluate(tokens, nullptr, progress);
}

Status Session::evaluate(std::span<const int32_t> tokens, const LogitsFn& on_logits, const ProgressFn& progress) {
  State& state = *state_;
  const auto total = static_cast<int64_t>(tokens.size());
  const int64_t vocab = state.model.config().vocab;
  // Where every row's logits are wanted, a chunk has no more rows than fit a bounded memory.
  const int64_t row_bytes = vocab * static_cast<int64_t>(sizeof(float));
  const int64_t most = on_logits ? std::max<int64_t>(1, kLogitsBytes / row_bytes) : state.batch;
  const int64_t batch = std::min(state.batch, most);
  EI_RETURN_IF_ERROR(state.check_room(tokens, on_logits ? std::min(batch, total) : 1));
  const double start = now_s();
  state.logits.resize(static_cast<size_t>(vocab));
  for (int64_t done = 0; done < total;) {
    const int64_t count = std::min(batch, total - done);
    const int64_t first = position();
    const int64_t wanted = on_logits ? count : (done + count == total ? 1 : 0);
    const double chunk_start = now_s();
    const double attention_before = state.stream->times().attention_s;
    EI_ASSIGN_OR_RETURN(const Matrix rows,
                        state.forward(tokens.subspan(static_cast<size_t>(done), static_cast<size_t>(count)), wanted));
    state.count_pairs(first, count);
    done += count;
    state.stats.prompt_tokens += count;
    state.stats.prompt_s += now_s() - chunk_start;
    state.stats.attention_s += state.stream->times().attention_s - attention_before;
    for (int64_t row = 0; row < wanted; ++row) {
      state.stream->read(rows.row_range(row, 1), state.logits.data());
      if (on_logits) on_logits(first + row, state.logits);
    }
    if (progress) progress({.done = done, .total = total, .elapsed_s = now_s() - start});
  }
  return {};
}

Status Session::decode(int32_t token) {
  State& state = *state_;
  if (position() >= state.context) {
    return make_error(ErrorKind::kUsage, "the context of %lld tokens is full; raise --ctx-size",
                      static_cast<long long>(state.context));
  }
  if (token < 0 || token >= state.model.config().vocab) {
    return make_error(ErrorKind::kUsage, "token %d is not in the vocabulary", token);
  }
  const double start = now_s();
  EI_ASSIGN_OR_RETURN(const Matrix logits, state.forward({&token, 1}, 1));
  state.logits.resize(static_cast<size_t>(logits.cols));
  state.stream->read(logits, state.logits.data());
  ++state.stats.generated_tokens;
  state.stats.decode_s += now_s() - start;
  return {};
}

std::span<const float> Session::logits() const { return state_->logits; }
int64_t Session::position() const { return state_->store.next_position(); }
int64_t Session::context() const { return state_->context; }
const kv::Store& Session::store() const { return state_->store; }
kv::Store& Session::store() { return state_->store; }
const SessionStats& Session::stats() const { return state_->stats; }
const Engine& Session::engine() const { return state_->engine; }

Status Session::truncate(int64_t position) {
  state_->logits.clear();
  return state_->store.truncate(static_cast<int32_t>(position));
}

}  // namespace ei
