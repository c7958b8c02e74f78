#include "model/model.h"

#include <algorithm>

namespace ei::model {

namespace {
const ScratchSlot kX, kNormed, kQkv, kAttended, kBranch, kFeedForward, kGateUp, kHidden;

// Elements of gate_up of `rows` rows; what stands behind it is aligned as it is.
int64_t gate_up_size(const Config& config, int64_t rows) {
  constexpr int64_t kAligned = 64;
  return (rows * 2 * int64_t{config.ffn_width} + kAligned - 1) / kAligned * kAligned;
}
}  // namespace

Activations Activations::rows(int64_t begin, int64_t count) const {
  return {.x = x.row_range(begin, count),
          .normed = normed.row_range(begin, count),
          .qkv = qkv.row_range(begin, count),
          .attended = attended.row_range(0, count),
          .branch = branch.row_range(0, count),
          .gate_up = gate_up.row_range(0, count),
          .hidden = hidden.row_range(0, count),
          .spare = spare};
}

int64_t activation_bytes(const Config& config, int64_t tokens, int64_t piece, int64_t logits_rows) {
  const int64_t q = static_cast<int64_t>(config.heads) * config.head_dim;
  const int64_t kv = static_cast<int64_t>(config.kv_heads) * config.head_dim;
  const int64_t width = config.width;
  const int64_t of_token = 2 * width + q + 2 * kv;
  const int64_t of_piece = width + q + 3 * static_cast<int64_t>(config.ffn_width);
  return (tokens * of_token + piece * of_piece + logits_rows * config.vocab) * static_cast<int64_t>(sizeof(float));
}

int64_t spare_bytes(const Config& config, int64_t rows) {
  return (gate_up_size(config, rows) + rows * int64_t{config.ffn_width}) * static_cast<int64_t>(sizeof(float));
}

Result<Activations> Model::activations(Stream& stream, int64_t tokens, int64_t piece, int64_t spare) const {
  Activations act;
  EI_ASSIGN_OR_RETURN(act.x, stream.scratch(kX, tokens, config_.width));
  EI_ASSIGN_OR_RETURN(act.normed, stream.scratch(kNormed, tokens, config_.width));
  EI_ASSIGN_OR_RETURN(act.qkv, stream.scratch(kQkv, tokens, query_width() + 2 * kv_width()));
  EI_ASSIGN_OR_RETURN(act.attended, stream.scratch(kAttended, piece, query_width()));
  EI_ASSIGN_OR_RETURN(act.branch, stream.scratch(kBranch, piece, config_.width));
  const int64_t ffn = config_.ffn_width;
  const auto element = static_cast<int64_t>(sizeof(float));
  const int64_t bytes = std::max(spare_bytes(config_, piece), (spare + element - 1) / element * element);
  EI_ASSIGN_OR_RETURN(const Matrix memory, stream.scratch(kFeedForward, 1, bytes / element));
  act.spare = {reinterpret_cast<std::byte*>(memory.data), static_cast<size_t>(bytes)};
  act.gate_up = stream.part(kGateUp, memory, 0, piece, 2 * ffn);
  act.hidden = stream.part(kHidden, memory, gate_up_size(config_, piece), piece, ffn);
  return act;
}

void Model::embed(Stream& stream, std::span<const int32_t> tokens, const Activations& act) const {
  stream.embed(*weights_.embedding, tokens, config_.embedding_scale, act.x);
  stream.rms_norm(act.x, *weights_.layers.front().attention_norm, config_.norm_eps, act.normed);
}

void Model::project_qkv(Stream& stream, int layer, const Activations& act, const RopeTable& rope,
                        const KvAppend& append) const {
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  stream.matmul(*weights.qkv, act.normed, act.qkv, weights.qkv_bias.get());
  stream.rotate_append({.q = query(act),
                        .k = act.qkv.columns(query_width(), kv_width()),
                        .v = act.qkv.columns(query_width() + kv_width(), kv_width()),
                        .q_norm = weights.q_norm.get(),
                        .k_norm = weights.k_norm.get(),
                        .norm_eps = config_.norm_eps,
                        .rope = rope,
                        .append = append});
}

void Model::finish_layer(Stream& stream, int layer, const Activations& act) const {
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  const bool last = layer + 1 == config_.layers;
  const Weight& next_norm =
      last ? *weights_.output_norm : *weights_.layers[static_cast<size_t>(layer) + 1].attention_norm;

  stream.matmul(*weights.attention_out, act.attended, act.branch, weights.attention_out_bias.get());
  if (config_.post_norms) stream.rms_norm(act.branch, *weights.attention_post_norm, config_.norm_eps, act.branch);
  stream.add_rms_norm(act.branch, act.x, weights.ffn_norm.get(), config_.norm_eps, act.normed);

  stream.matmul(*weights.gate_up, act.normed, act.gate_up, weights.gate_up_bias.get());
  stream.activate(config_.activation, act.gate_up.columns(0, config_.ffn_width),
                  act.gate_up.columns(config_.ffn_width, config_.ffn_width), act.hidden);
  stream.matmul(*weights.down, act.hidden, act.branch, weights.down_bias.get());
  if (config_.post_norms) stream.rms_norm(act.branch, *weights.ffn_post_norm, config_.norm_eps, act.branch);
  stream.add_rms_norm(act.branch, act.x, &next_norm, config_.norm_eps, act.normed);
}

void Model::logits(Stream& stream, Matrix normed, Matrix out) const {
  stream.matmul(*weights_.output, normed, out, weights_.output_bias.get());
  if (config_.logit_softcap > 0) stream.softcap(out, config_.logit_softcap);
}

}  // namespace ei::model
