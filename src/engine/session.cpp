#include "engine/session.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "engine/session_state.h"
#include "kv/rewind.h"

namespace ei {

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::~Session() = default;

Status Session::State::check_token(int32_t token) const {
  if (reading().next_position() >= context) {
    return make_error(ErrorKind::kUsage, "the context of %lld tokens is full; raise --ctx-size",
                      static_cast<long long>(context));
  }
  if (token < 0 || token >= model.config().vocab) {
    return make_error(ErrorKind::kUsage, "token %d is not in the vocabulary", token);
  }
  return {};
}

Status Session::decode(int32_t token) {
  State& state = *state_;
  EI_RETURN_IF_ERROR(state.check_token(token));
  state.prompt.reset();
  const double start = now_s();
  state.stream->enter(Phase::kGeneration, 1);
  if (!state.reads_all()) {
    EI_ASSIGN_OR_RETURN(state.reads_pages, state.pages->begin_token(position()));
  }
  Result<State::Rows> fed = state.forward({&token, 1}, {.tail = 1, .logits = 1}, /*plan=*/false);
  const bool paged = std::exchange(state.reads_pages, false);
  if (paged) fed.ok() ? state.pages->finish_token() : state.pages->undo_token();
  EI_ASSIGN_OR_RETURN(const State::Rows rows, std::move(fed));
  state.logits.resize(static_cast<size_t>(rows.logits.cols));
  EI_RETURN_IF_ERROR(state.stream->read(rows.logits, state.logits.data()));
  return state.token_fed(now_s() - start, paged);
}

Status Session::State::token_fed(double fed_s, bool paged) {
  const double start = now_s();
  ++stats.generated_tokens;
  const bool was_compressed = !reading().exact();
  if (was_compressed) ++stats.compressed_tokens;
  if (paged) ++stats.paged_tokens;
  (was_compressed ? stats.compressed_s : stats.full_s) += fed_s;
  if (compressor && compressor->token_appended(reading())) compression_due = true;
  const Status compressed = compress_if_due();
  stats.decode_s += fed_s + now_s() - start;
  return compressed;
}

Result<int64_t> Session::State::compress() {
  if (!keep_whole) return compressor->compress(*stream, store);
  if (view) return compressor->compress(*stream, *view);
  // Pages are shared until the compression drops or rewrites them.
  EI_RETURN_IF_ERROR(compressor->begin_view(*stream, store));
  EI_ASSIGN_OR_RETURN(view, store.fork());
  Result<int64_t> dropped = compressor->compress(*stream, *view);
  if (!dropped.ok() || *dropped == 0) {
    view.reset();
    compressor->rewound(store);
  }
  return dropped;
}

Status Session::State::compress_if_due() {
  if (!compression_due) return {};
  const double start = now_s();
  const Result<int64_t> dropped = compress();
  stats.compress_s += now_s() - start;
  if (!dropped.ok()) return dropped.error();
  compression_due = false;
  if (*dropped > 0) {
    ++stats.compressions;
    if (planner && !view) planner->keys_dropped();
  }
  stats.evicted += *dropped;
  return {};
}

std::span<const float> Session::logits() const { return state_->logits; }
int64_t Session::position() const { return state_->reading().next_position(); }
std::span<const int32_t> Session::tokens() const { return state_->held; }
int64_t Session::context() const { return state_->context; }
int64_t Session::batch() const { return state_->batch; }
const kv::Store& Session::store() const { return state_->store; }
const kv::Store& Session::reading() const { return state_->reading(); }
bool Session::has_view() const { return state_->view.has_value(); }
const SessionStats& Session::stats() const { return state_->stats; }
const sparse::Planner* Session::planner() const { return state_->planner ? &*state_->planner : nullptr; }
sparse::Planner* Session::planner() { return state_->planner ? &*state_->planner : nullptr; }
const Engine& Session::engine() const { return state_->engine; }

int64_t Session::rewind_point(int64_t position) const {
  // What only a view holds was computed from what it had kept: the whole cache goes on without it.
  const int64_t last = std::min<int64_t>(position, state_->store.next_position());
  const int32_t point = kv::rewind_point(state_->store, state_->windows, static_cast<int32_t>(last));
  return state_->compressor ? state_->compressor->rewind_point(point) : point;
}

bool Session::watched() const {
  return !state_->compressor || state_->compressor->complete(static_cast<int32_t>(position()));
}

int64_t Session::most_slots(int64_t prompt, int64_t generated) const {
  const int64_t all = std::min(prompt + generated, context());
  if (state_->compressor && state_->keep_whole) return all + state_->compressor->most_slots(1, generated);
  return state_->compressor ? std::min(all, state_->compressor->most_slots(prompt, generated)) : all;
}

Status Session::truncate(int64_t position) {
  const bool inside = position >= 0 && position <= this->position();
  if (!inside) return state_->store.truncate(static_cast<int32_t>(position));  // says why not
  if (const int64_t point = rewind_point(position); point != position) {
    return make_error(
        ErrorKind::kUsage,
        "cannot rewind to position %lld: a KV compression left keys out in front of it, or attention from "
        "behind it was added up; rewind to %lld and read on from there",
        static_cast<long long>(position), static_cast<long long>(point));
  }
  state_->logits.clear();
  state_->prompt.reset();
  state_->view.reset();
  if (state_->planner) state_->planner->truncate(position);
  if (state_->pages) state_->pages->truncate(position);
  EI_RETURN_IF_ERROR(state_->store.truncate(static_cast<int32_t>(position)));
  if (state_->compressor) state_->compressor->rewound(state_->store);
  state_->held.resize(static_cast<size_t>(position));
  return {};
}

Status Session::adopt(kv::Store store, std::span<const int32_t> tokens, std::string_view memory) {
  const kv::StoreConfig& ours = state_->store.config();
  const kv::StoreConfig& theirs = store.config();
  if (theirs.layers != ours.layers || theirs.kv_heads != ours.kv_heads || theirs.head_dim != ours.head_dim) {
    return make_error(ErrorKind::kUsage, "the cache has %d layers of %d x %d, the model %d of %d x %d", theirs.layers,
                      theirs.kv_heads, theirs.head_dim, ours.layers, ours.kv_heads, ours.head_dim);
  }
  if (theirs.key_type != ours.key_type || theirs.value_type != ours.value_type) {
    return make_error(ErrorKind::kUsage, "the cache holds %s keys and %s values, the session %s and %s",
                      dtype_name(theirs.key_type), dtype_name(theirs.value_type), dtype_name(ours.key_type),
                      dtype_name(ours.value_type));
  }
  if (store.next_position() > state_->context) {
    return make_error(ErrorKind::kUsage, "the cache holds %d tokens, the context %lld; raise --ctx-size",
                      store.next_position(), static_cast<long long>(state_->context));
  }
  if (!tokens.empty() && static_cast<int64_t>(tokens.size()) != store.next_position()) {
    return make_error(ErrorKind::kUsage, "the cache holds %d tokens, its text has %zu", store.next_position(),
                      tokens.size());
  }
  state_->held.assign(tokens.begin(), tokens.end());
  state_->held.resize(static_cast<size_t>(store.next_position()), text::kNoToken);
  state_->prompt.reset();
  state_->view.reset();
  state_->store = std::move(store);
  state_->logits.clear();
  state_->compression_due = false;
  if (state_->compressor) state_->compressor->restart();
  if (state_->pages) state_->pages->truncate(0);
  if (state_->planner) {
    state_->planner->truncate(0);
    state_->planner->keys_dropped();
  }
  return memory.empty() ? Status{} : state_->recall(memory);
}

}  // namespace ei
