// The forward pass: embed, then per layer project -> append -> attend -> finish, then logits.
#include <algorithm>

#include "base/clock.h"
#include "engine/session_state.h"

namespace ei {

namespace {

constexpr int kLogitsSlot = 100;  // scratch slots below belong to the model

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
    model::fill_rope(config.ropes[i], config.rope_dims, first_position, tokens, angles[i]);
    tables.push_back(
        {.cos = static_cast<const float*>(stream->stage(angles[i].cos.data(), angles[i].cos.size() * sizeof(float))),
         .sin = static_cast<const float*>(stream->stage(angles[i].sin.data(), angles[i].sin.size() * sizeof(float))),
         .dims = config.rope_dims,
         .interleaved = config.rope_interleaved});
  }
  return tables;
}

Result<Matrix> Session::State::record(std::span<const int32_t> chunk, int64_t logits_rows) {
  const model::Config& config = model.config();
  const auto tokens = static_cast<int64_t>(chunk.size());
  const int32_t first = store.next_position();
  EI_RETURN_IF_ERROR(store.reserve(tokens));
  EI_ASSIGN_OR_RETURN(model::Activations act, model.activations(*stream, tokens));
  EI_ASSIGN_OR_RETURN(const Matrix out, stream->scratch(kLogitsSlot, logits_rows, config.vocab));
  const std::vector<RopeTable> ropes = stage_angles(first, tokens);

  model.embed(*stream, chunk, act);
  for (int layer = 0; layer < model.num_layers(); ++layer) {
    const model::LayerFacts& facts = config.per_layer[static_cast<size_t>(layer)];
    model.project_qkv(*stream, layer, act, ropes[static_cast<size_t>(facts.rope)], store.append(layer, tokens));
    // Behind the last layer's keys and values only the rows whose logits are wanted matter.
    const bool last = layer + 1 == model.num_layers();
    const model::Activations rows = last ? act.tail(logits_rows) : act;
    if (rows.x.rows == 0) break;
    const Matrix q = model.query(rows);
    stream->attention({.q = q.data,
                       .q_stride = q.stride,
                       .out = rows.attended.data,
                       .out_stride = rows.attended.stride,
                       .tokens = q.rows,
                       .num_heads = config.heads,
                       .first_position = static_cast<int32_t>(first + tokens - q.rows),
                       .scale = config.attention_scale,
                       .window = facts.window,
                       .kv = store.view(layer)});
    model.finish_layer(*stream, layer, rows);
    if (last) model.logits(*stream, rows.normed, out);
  }
  return out;
}

Result<Matrix> Session::State::forward(std::span<const int32_t> chunk, int64_t logits_rows) {
  const int32_t first = store.next_position();
  Result<Matrix> recorded = record(chunk, logits_rows);
  const Status ran = stream->synchronize();
  if (recorded.ok() && ran.ok()) return recorded;
  EI_RETURN_IF_ERROR(store.truncate(first));
  return recorded.ok() ? ran.error() : recorded.error();
}

void Session::State::count_pairs(int64_t first, int64_t tokens) {
  const model::Config& config = model.config();
  for (const model::LayerFacts& facts : config.per_layer) {
    const double pairs = causal_pairs(first, tokens, facts.window) * config.kv_heads;
    stats.pairs += pairs;
    stats.pairs_dense += pairs;
  }
}

Status Session::State::check_room(std::span<const int32_t> tokens, int64_t logits_rows) const {
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
  const int64_t need = added * model.config().kv_bytes_per_token(kv.key_type, kv.value_type) +
                       model::activation_bytes(model.config(), std::min(added, batch), logits_rows);
  const int64_t available = available_memory_bytes();
  if (available >= 0 && need > available) {
    return make_error(
        ErrorKind::kMemory, "%lld tokens need %lld MiB for the KV cache and activations, only %lld MiB are free",
        static_cast<long long>(added), static_cast<long long>(need >> 20), static_cast<long long>(available >> 20));
  }
  return {};
}

}  // namespace ei
