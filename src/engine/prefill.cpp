// The forward pass: embed, then per layer project -> append -> attend -> finish, then logits.
#include <algorithm>
#include <new>

#include "base/clock.h"
#include "engine/memory.h"
#include "engine/session_state.h"

namespace ei {

namespace {

constexpr int kLogitsSlot = 100;  // scratch slots below belong to the model
constexpr int kGatherSlot = 99;
constexpr int64_t kLogitsBytes = int64_t{64} << 20;

// Query-key pairs of `tokens` rows from `first` on, one kv_head, with a window (0: none).
double causal_pairs(int64_t first, int64_t tokens, int64_t window) {
  // Row p sees p + 1 keys, or `window` once p + 1 exceeds it.
  const auto triangle = [window](int64_t rows) {
    const auto n = static_cast<double>(rows);
    if (window == 0 || rows <= window) return n * (n + 1) / 2;
    const auto w = static_cast<double>(window);
    return w * (w + 1) / 2 + (n - w) * w;
  };
  return triangle(first + tokens) - triangle(first);
}

}  // namespace

std::vector<RopeTable> Session::State::stage_angles(int32_t first_position, int64_t tokens) {
  const model::Config& config = model.config();
  angles.resize(config.ropes.size());
  std::vector<RopeTable> tables;
  for (size_t i = 0; i < angles.size(); ++i) {
    if (stream->makes_angles()) {
      tables.push_back({.cos = nullptr,
                        .sin = nullptr,
                        .dims = config.rope_dims,
                        .interleaved = config.rope_interleaved,
                        .rope = &config.ropes[i],
                        .first_position = first_position});
      continue;
    }
    model::fill_rope(config.ropes[i], config.rope_dims, first_position, tokens, angles[i]);
    tables.push_back(
        {.cos = static_cast<const float*>(stream->stage(angles[i].cos.data(), angles[i].cos.size() * sizeof(float))),
         .sin = static_cast<const float*>(stream->stage(angles[i].sin.data(), angles[i].sin.size() * sizeof(float))),
         .dims = config.rope_dims,
         .interleaved = config.rope_interleaved,
         .rope = &config.ropes[i],
         .first_position = first_position});
  }
  return tables;
}

Result<Session::State::Rows> Session::State::record(std::span<const int32_t> chunk, Wanted rows, bool plan) {
  const model::Config& config = model.config();
  const auto tokens = static_cast<int64_t>(chunk.size());
  const int32_t first = store.next_position();
  EI_RETURN_IF_ERROR(store.reserve(tokens));
  EI_ASSIGN_OR_RETURN(model::Activations act, model.activations(*stream, tokens));
  Rows out;
  EI_ASSIGN_OR_RETURN(out.logits, stream->scratch(kLogitsSlot, rows.logits, config.vocab));
  if (plan) EI_RETURN_IF_ERROR(planner->begin_chunk(*stream, first, tokens));
  const std::vector<RopeTable> ropes = stage_angles(first, tokens);

  model.embed(*stream, chunk, act);
  for (int layer = 0; layer < model.num_layers(); ++layer) {
    const model::LayerFacts& facts = config.per_layer[static_cast<size_t>(layer)];
    model.project_qkv(*stream, layer, act, ropes[static_cast<size_t>(facts.rope)], store.append(layer, tokens));
    if (compressor) compressor->observer().record(*stream, layer, model.query(act), first);
    // Behind the last layer's keys and values only the rows whose logits are wanted matter.
    const bool last = layer + 1 == model.num_layers();
    const model::Activations wanted = last ? act.tail(rows.tail) : act;
    const BlockPlan* blocks = nullptr;  // null: everything is read
    if (plan && planner->plans(layer))
      blocks = planner->record(*stream, layer, model.query(act), store.view(layer), wanted.x.rows);
    if (wanted.x.rows == 0) break;
    const Matrix q = model.query(wanted);
    stream->attention({.q = q.data,
                       .q_stride = q.stride,
                       .out = wanted.attended.data,
                       .out_stride = wanted.attended.stride,
                       .tokens = q.rows,
                       .num_heads = config.heads,
                       .first_position = static_cast<int32_t>(first + tokens - q.rows),
                       .scale = config.attention_scale,
                       .scale_queries = config.scaled_queries,
                       .window = facts.window,
                       .plan = blocks,
                       .kv = store.view(layer)});
    model.finish_layer(*stream, layer, wanted);
    if (on_layers && !last) stream->host([this, layer] { on_layers(layer + 1); });
    if (last) {
      out.normed = wanted.normed;
      model.logits(*stream, wanted.normed.row_range(0, out.logits.rows), out.logits);
    }
  }
  return out;
}

Result<Session::State::Rows> Session::State::forward(std::span<const int32_t> chunk, Wanted wanted, bool plan) {
  const int32_t first = store.next_position();
  Result<Rows> recorded = [&]() -> Result<Rows> {
    try {
      return record(chunk, wanted, plan);
    } catch (const std::bad_alloc&) {
      return make_error(ErrorKind::kMemory, "out of memory at position %d; shorten the prompt or ask for fewer tokens",
                        first);
    }
  }();
  const Status ran = stream->synchronize();
  if (recorded.ok() && ran.ok()) {
    if (compressor) compressor->observer().advance(first, static_cast<int64_t>(chunk.size()));
    return recorded;
  }
  if (plan) planner->undo_chunk();
  EI_RETURN_IF_ERROR(store.truncate(first));
  return recorded.ok() ? ran.error() : recorded.error();
}

Result<Session::State::Rows> Session::State::read_chunk(std::span<const int32_t> chunk, Wanted wanted) {
  const int64_t first = store.next_position();
  const bool plan = sparse();
  const Stream::Times before = stream->times();
  EI_ASSIGN_OR_RETURN(const Rows out, forward(chunk, wanted, plan));
  const Stream::Times after = stream->times();
  const auto tokens = static_cast<int64_t>(chunk.size());
  const double pairs = dense_pairs(first, tokens);
  stats.pairs_dense += pairs;
  stats.pairs += pairs - (plan ? planner->finish_chunk() : 0);
  stats.prompt_tokens += tokens;
  stats.attention_s += after.attention_s - before.attention_s;
  stats.matmul_s += after.matmul_s - before.matmul_s;
  stats.profile_s += after.profile_s - before.profile_s;
  if (plan) stats.plan_s += after.plan_s - before.plan_s;  // other host jobs only show progress
  return out;
}

Result<Matrix> Session::State::more_logits(Matrix normed, std::span<const int64_t> rows) {
  const auto count = static_cast<int64_t>(rows.size());
  Matrix chosen = normed.row_range(rows.front(), 1);
  if (rows.back() - rows.front() + 1 == count) {
    chosen = normed.row_range(rows.front(), count);
  } else {
    EI_ASSIGN_OR_RETURN(chosen, stream->scratch(kGatherSlot, count, normed.cols));
    for (int64_t i = 0; i < count; ++i)
      stream->copy(normed.row_range(rows[static_cast<size_t>(i)], 1), chosen.row_range(i, 1));
  }
  EI_ASSIGN_OR_RETURN(const Matrix out, stream->scratch(kLogitsSlot, count, model.config().vocab));
  model.logits(*stream, chosen, out);
  EI_RETURN_IF_ERROR(stream->synchronize());
  return out;
}

int64_t Session::State::logits_rows() const {
  const int64_t row_bytes = int64_t{model.config().vocab} * static_cast<int64_t>(sizeof(float));
  constexpr int64_t kWhole = 32;  // ggml's kernels take rows by fours and more, and may round the rest otherwise
  const int64_t rows = kLogitsBytes / row_bytes;
  return rows > kWhole ? rows / kWhole * kWhole : std::max<int64_t>(1, rows);
}

int64_t Session::State::together(std::span<const int64_t> rows) const {
  int64_t count = 0;
  const int64_t most = std::min(logits_rows(), static_cast<int64_t>(rows.size()));
  while (count < most && rows[static_cast<size_t>(count)] == count) ++count;
  return count;
}

double Session::State::dense_pairs(int64_t first, int64_t tokens) const {
  double pairs = 0;
  for (const model::LayerFacts& facts : model.config().per_layer)
    pairs += causal_pairs(first, tokens, facts.window) * model.config().kv_heads;
  return pairs;
}

Status Session::State::check_room(std::span<const int32_t> tokens, int64_t wanted) const {
  const int64_t held = store.next_position();
  const auto added = static_cast<int64_t>(tokens.size());
  if (added == 0) return make_error(ErrorKind::kUsage, "the prompt is empty");
  if (held + added > context) {
    return make_error(ErrorKind::kUsage, "prompt is longer than the context: %lld > %lld tokens; raise --ctx-size",
                      static_cast<long long>(held + added), static_cast<long long>(context));
  }
  for (const int32_t token : tokens) {
    if (token < 0 || token >= model.config().vocab) {
      return make_error(ErrorKind::kUsage, "token %d is not in the vocabulary of %d", token, model.config().vocab);
    }
  }
  const kv::StoreConfig& kv = store.config();
  const int64_t need =
      added * model.config().kv_bytes_per_token(kv.key_type, kv.value_type) +
      model::activation_bytes(model.config(), std::min(added, batch), std::min(wanted, logits_rows())) +
      (planner ? planner->bytes_for(held + added) : 0) + (compressor ? compressor->bytes_for(held + added) : 0);
  const int64_t available = free_bytes(engine.backend());
  if (available >= 0 && need > available) {
    return make_error(
        ErrorKind::kMemory, "%lld tokens need %lld MiB for the KV cache and activations, only %lld MiB are free",
        static_cast<long long>(added), static_cast<long long>(need >> 20), static_cast<long long>(available >> 20));
  }
  return {};
}

}  // namespace ei
