// A prompt from its first to its last chunk: what Session::prefill, evaluate and read_chunk are made of.
#include <algorithm>

#include "base/clock.h"
#include "engine/session_state.h"
#include "engine/wanted_logits.h"

namespace ei {

namespace {
constexpr double kShowSeconds = 1.0;  // from one sign of progress inside a chunk to the next
}

Status Session::prefill(std::span<const int32_t> tokens, const ProgressFn& progress) {
  return evaluate(tokens, nullptr, progress);
}

Status Session::evaluate(std::span<const int32_t> tokens, const LogitsFn& on_logits, const ProgressFn& progress,
                         const RowFilter& wanted) {
  EI_RETURN_IF_ERROR(state_->begin_prompt(tokens, on_logits ? static_cast<int64_t>(tokens.size()) : 1));
  while (state_->prompt) EI_RETURN_IF_ERROR(state_->read_chunk(0, on_logits, progress, wanted));
  return {};
}

Status Session::begin_prompt(std::vector<int32_t> tokens) { return state_->begin_prompt(tokens, 1); }

Result<int64_t> Session::read_chunk(int64_t most, const ProgressFn& progress, const LogitsFn& on_logits) {
  if (!state_->prompt) return Error{ErrorKind::kUsage, "no prompt is being read"};
  EI_RETURN_IF_ERROR(state_->read_chunk(most, on_logits, progress, nullptr));
  return state_->prompt ? state_->prompt->left() : 0;
}

Status Session::State::begin_prompt(std::span<const int32_t> tokens, int64_t wanted) {
  prompt.reset();
  EI_RETURN_IF_ERROR(check_room(tokens, wanted));
  Reading next;
  next.shown = reading().next_position();
  if (view) {
    // What only the view holds is read again, over the whole cache.
    const int32_t whole = store.next_position();
    next.tokens.assign(held.begin() + whole, held.end());
    view.reset();
    held.resize(static_cast<size_t>(whole));
    if (planner) planner->truncate(whole);
    EI_RETURN_IF_ERROR(store.truncate(whole));
    if (compressor) compressor->rewound(store);
  }
  next.tokens.insert(next.tokens.end(), tokens.begin(), tokens.end());
  next.first = store.next_position();
  next.sparse = sparse();
  const auto total = static_cast<int64_t>(next.tokens.size());
  store.expect(total);
  if (next.sparse) EI_RETURN_IF_ERROR(planner->begin_prompt(next.first + total));
  next.start_s = now_s();
  next.attention_before_s = stats.attention_s;
  next.pairs_before = stats.pairs;
  stream->enter(Phase::kPrompt, total);
  logits.resize(static_cast<size_t>(model.config().vocab));
  prompt = std::move(next);
  return {};
}

Status Session::State::read_chunk(int64_t most, const LogitsFn& on_logits, const ProgressFn& progress,
                                  const RowFilter& wanted) {
  Reading now = std::move(*prompt);
  prompt.reset();  // an error ends it
  const auto total = static_cast<int64_t>(now.tokens.size());
  const int64_t end = now.first + total;
  const int64_t first = now.first + now.done;
  const int64_t limit = most > 0 ? std::min(most, batch) : batch;
  const int64_t count = now.sparse ? planner->chunk_end(first, limit) - first : std::min(limit, now.left());
  const auto handed_over = [&](int64_t at) { return on_logits && at >= now.shown && (!wanted || wanted(at)); };
  // The last token's logits are always computed: they predict what follows.
  const auto [tail, rows] =
      wanted_rows(count, [&](int64_t row) { return handed_over(first + row) || first + row + 1 == end; });
  const double start = now_s();
  double shown_s = start;
  const auto show = [&](int64_t done) {
    shown_s = now_s();
    progress({.done = done,
              .total = total,
              .elapsed_s = shown_s - now.start_s,
              .attention_s = stats.attention_s - now.attention_before_s,
              .pairs = stats.pairs - now.pairs_before});
  };
  if (progress) {
    // A chunk of a large model takes long: its layers show in between.
    on_layers = [&](int layers) {
      if (now_s() - shown_s >= kShowSeconds) show(now.done + count * layers / model.num_layers());
    };
  }
  tokens_ahead = std::min(limit, now.left() - count);
  Result<Rows> read =
      forward_prompt(std::span(now.tokens).subspan(static_cast<size_t>(now.done), static_cast<size_t>(count)),
                     {.tail = tail, .logits = leading_run(rows, logits_together(model.config().vocab))});
  on_layers = nullptr;
  tokens_ahead = 0;
  // A chunk that found no memory has been undone: whoever can make room may try it again.
  if (!read.ok() && read.error().kind == ErrorKind::kMemory) {
    prompt = std::move(now);
    return read.error();
  }
  EI_ASSIGN_OR_RETURN(const Rows out, std::move(read));
  now.done += count;
  stats.prompt_s += now_s() - start;
  EI_RETURN_IF_ERROR(each_row(out, rows, [&, first_wanted = first + count - tail](int64_t row) {
    const int64_t at = first_wanted + row;
    if (handed_over(at)) on_logits(at, logits);
  }));
  if (progress) show(now.done);
  if (now.left() == 0) return end_prompt();
  prompt = std::move(now);
  return {};
}

Status Session::State::end_prompt() {
  if (sparse()) planner->end_prompt();
  if (!compressor) return {};
  compression_due = compressor->prompt_read(store);
  const double before = stats.compress_s;
  const Status compressed = compress_if_due();
  stats.prompt_s += stats.compress_s - before;
  return compressed;
}

}  // namespace ei
