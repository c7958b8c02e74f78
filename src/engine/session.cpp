#include "engine/session.h"

#include <algorithm>

#include "base/clock.h"
#include "engine/session_state.h"

namespace ei {

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::~Session() = default;

Status Session::prefill(std::span<const int32_t> tokens, const ProgressFn& progress) {
  return evaluate(tokens, nullptr, progress);
}

Status Session::evaluate(std::span<const int32_t> tokens, const LogitsFn& on_logits, const ProgressFn& progress) {
  State& state = *state_;
  const auto total = static_cast<int64_t>(tokens.size());
  EI_RETURN_IF_ERROR(state.check_room(tokens, on_logits ? total : 1));
  const int64_t end = position() + total;
  const bool sparse = state.sparse();
  if (sparse) EI_RETURN_IF_ERROR(state.planner->begin_prompt(end));
  const double start = now_s();
  state.logits.resize(static_cast<size_t>(state.model.config().vocab));
  for (int64_t done = 0; done < total;) {
    const int64_t first = position();
    const int64_t count =
        sparse ? state.planner->chunk_end(first, state.batch) - first : std::min(state.batch, total - done);
    const int64_t wanted = on_logits ? count : (done + count == total ? 1 : 0);
    const double chunk_start = now_s();
    EI_ASSIGN_OR_RETURN(
        State::Rows rows,
        state.read_chunk(tokens.subspan(static_cast<size_t>(done), static_cast<size_t>(count)), wanted));
    done += count;
    state.stats.prompt_s += now_s() - chunk_start;
    for (int64_t row = 0; row < wanted; ++row) {
      const int64_t inside = row % state.logits_rows();
      if (row > 0 && inside == 0) {
        const int64_t next = std::min(state.logits_rows(), wanted - row);
        EI_ASSIGN_OR_RETURN(rows.logits, state.more_logits(rows.normed.row_range(row, next)));
      }
      state.stream->read(rows.logits.row_range(inside, 1), state.logits.data());
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
  EI_ASSIGN_OR_RETURN(const State::Rows rows, state.forward({&token, 1}, 1, /*plan=*/false));
  state.logits.resize(static_cast<size_t>(rows.logits.cols));
  state.stream->read(rows.logits, state.logits.data());
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
const sparse::Planner* Session::planner() const { return state_->planner ? &*state_->planner : nullptr; }
sparse::Planner* Session::planner() { return state_->planner ? &*state_->planner : nullptr; }
const Engine& Session::engine() const { return state_->engine; }

Status Session::truncate(int64_t position) {
  state_->logits.clear();
  if (state_->planner) state_->planner->truncate(position);
  return state_->store.truncate(static_cast<int32_t>(position));
}

}  // namespace ei
