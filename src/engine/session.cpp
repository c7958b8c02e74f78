#include "engine/session.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "engine/session_state.h"
#include "engine/wanted_logits.h"
#include "kv/rewind.h"

namespace ei {

namespace {
constexpr double kShowSeconds = 1.0;  // from one sign of progress inside a chunk to the next
}

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::~Session() = default;

Status Session::prefill(std::span<const int32_t> tokens, const ProgressFn& progress) {
  return evaluate(tokens, nullptr, progress);
}

Status Session::evaluate(std::span<const int32_t> tokens, const LogitsFn& on_logits, const ProgressFn& progress,
                         const RowFilter& wanted) {
  State& state = *state_;
  const auto total = static_cast<int64_t>(tokens.size());
  EI_RETURN_IF_ERROR(state.check_room(tokens, on_logits ? total : 1));
  if (state.view) return read_behind_view(tokens, on_logits, progress, wanted);
  const int64_t end = position() + total;
  const bool sparse = state.sparse();
  if (sparse) EI_RETURN_IF_ERROR(state.planner->begin_prompt(end));
  const double start = now_s();
  state.stream->enter(Phase::kPrompt, total);
  state.logits.resize(static_cast<size_t>(state.model.config().vocab));
  const int64_t most_rows = logits_together(state.model.config().vocab);
  double shown_s = start;
  const auto show = [&](int64_t done) {
    shown_s = now_s();
    progress({.done = done, .total = total, .elapsed_s = shown_s - start});
  };
  const auto handed_over = [&](int64_t at) { return on_logits && (!wanted || wanted(at)); };
  for (int64_t done = 0; done < total;) {
    const int64_t first = position();
    const int64_t count =
        sparse ? state.planner->chunk_end(first, state.batch) - first : std::min(state.batch, total - done);
    // The last token's logits are always computed: they predict what follows.
    const auto [tail, rows] =
        wanted_rows(count, [&](int64_t row) { return handed_over(first + row) || first + row + 1 == end; });
    const double chunk_start = now_s();
    if (progress) {
      // A chunk of a large model takes long: its layers show in between.
      state.on_layers = [&, done, count](int layers) {
        if (now_s() - shown_s >= kShowSeconds) show(done + count * layers / state.model.num_layers());
      };
    }
    Result<State::Rows> read = state.read_chunk(tokens.subspan(static_cast<size_t>(done), static_cast<size_t>(count)),
                                                {.tail = tail, .logits = leading_run(rows, most_rows)});
    state.on_layers = nullptr;
    EI_ASSIGN_OR_RETURN(const State::Rows out, std::move(read));
    done += count;
    state.stats.prompt_s += now_s() - chunk_start;
    EI_RETURN_IF_ERROR(state.each_row(out, rows, [&, first_wanted = first + count - tail](int64_t row) {
      const int64_t at = first_wanted + row;
      if (handed_over(at)) on_logits(at, state.logits);
    }));
    if (progress) show(done);
  }
  if (sparse) state.planner->end_prompt();
  if (!state.compressor) return {};
  state.compression_due = state.compressor->prompt_read(state.store);
  const double before = state.stats.compress_s;
  const Status compressed = state.compress_if_due();
  state.stats.prompt_s += state.stats.compress_s - before;
  return compressed;
}

Status Session::read_behind_view(std::span<const int32_t> tokens, const LogitsFn& on_logits, const ProgressFn& progress,
                                 const RowFilter& wanted) {
  const int64_t end = position();
  const int64_t whole = state_->store.next_position();
  std::vector<int32_t> all(state_->held.begin() + whole, state_->held.end());
  all.insert(all.end(), tokens.begin(), tokens.end());
  EI_RETURN_IF_ERROR(truncate(whole));
  return evaluate(all, on_logits, progress, [&](int64_t at) { return at >= end && (!wanted || wanted(at)); });
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
  state.stream->enter(Phase::kGeneration, 1);
  if (state.pages && state.reading().exact()) {  // slots are positions
    EI_ASSIGN_OR_RETURN(state.reads_pages, state.pages->begin_token(position()));
  }
  Result<State::Rows> fed = state.forward({&token, 1}, {.tail = 1, .logits = 1}, /*plan=*/false);
  const bool paged = std::exchange(state.reads_pages, false);
  if (paged) fed.ok() ? state.pages->finish_token() : state.pages->undo_token();
  EI_ASSIGN_OR_RETURN(const State::Rows rows, std::move(fed));
  state.logits.resize(static_cast<size_t>(rows.logits.cols));
  state.stream->read(rows.logits, state.logits.data());
  const double fed_s = now_s() - start;
  SessionStats& stats = state.stats;
  ++stats.generated_tokens;
  const bool was_compressed = !state.reading().exact();
  if (was_compressed) ++stats.compressed_tokens;
  if (paged) ++stats.paged_tokens;
  (was_compressed ? stats.compressed_s : stats.full_s) += fed_s;
  if (state.compressor && state.compressor->token_appended(state.reading())) state.compression_due = true;
  const Status compressed = state.compress_if_due();
  stats.decode_s += now_s() - start;
  return compressed;
}

Result<int64_t> Session::State::compress() {
  if (!keep_whole) return compressor->compress(*stream, store);
  if (view) return compressor->compress(*stream, *view);
  // Pages are shared until the compression drops or rewrites them.
  EI_ASSIGN_OR_RETURN(view, store.fork());
  Result<int64_t> dropped = compressor->compress(*stream, *view);
  if (!dropped.ok() || *dropped == 0) view.reset();
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
  return kv::rewind_point(state_->store, state_->windows, static_cast<int32_t>(last));
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
    return make_error(ErrorKind::kUsage,
                      "cannot rewind to position %lld: a KV compression left keys out in front of it; rewind to %lld "
                      "and read on from there",
                      static_cast<long long>(position), static_cast<long long>(point));
  }
  state_->logits.clear();
  state_->view.reset();
  if (state_->planner) state_->planner->truncate(position);
  if (state_->pages) state_->pages->truncate(position);
  EI_RETURN_IF_ERROR(state_->store.truncate(static_cast<int32_t>(position)));
  if (state_->compressor) state_->compressor->rewound(state_->store);
  state_->held.resize(static_cast<size_t>(position));
  return {};
}

Status Session::adopt(kv::Store store, std::span<const int32_t> tokens) {
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
  return {};
}

}  // namespace ei
