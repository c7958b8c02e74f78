// Model: the steps of a forward pass that are not attention. Const; activations live in the caller's stream.
#pragma once

#include <cstddef>
#include <span>

#include "backend/backend.h"
#include "model/config.h"
#include "model/weights.h"

namespace ei::model {

// Activations of one chunk, in stream memory. Attention and what follows it take a piece of its rows at a time, usually
// all of them.
struct Activations {
  Matrix x;         // [tokens, width] residual stream
  Matrix normed;    // [tokens, width] x behind the next norm
  Matrix qkv;       // [tokens, (heads + 2 kv_heads) * head_dim]
  Matrix attended;  // [piece, heads * head_dim]
  Matrix branch;    // [piece, width] what attention or feed-forward adds
  Matrix gate_up;   // [piece, 2 * ffn_width]
  Matrix hidden;    // [piece, ffn_width]
  // Memory of the feed-forward, gate_up and hidden among it: until a layer's attention is done whoever plans it may
  // have it.
  std::span<std::byte> spare;

  int64_t piece() const { return attended.rows; }
  // `count` rows of the chunk, at most a piece.
  Activations rows(int64_t begin, int64_t count) const;
};

// Bytes of the activations of `tokens` tokens in pieces of `piece`, plus `logits_rows` rows of logits.
int64_t activation_bytes(const Config& config, int64_t tokens, int64_t piece, int64_t logits_rows);

// Of Activations::spare, of pieces of `rows`.
int64_t spare_bytes(const Config& config, int64_t rows);

class Model {
 public:
  Model(Config config, Weights weights) : config_(std::move(config)), weights_(std::move(weights)) {}

  const Config& config() const { return config_; }
  int num_layers() const { return config_.layers; }

  // `spare`: at least so many bytes of it.
  Result<Activations> activations(Stream& stream, int64_t tokens, int64_t piece, int64_t spare = 0) const;
  // x = embedding of the tokens, normed = x behind the first layer's norm
  void embed(Stream& stream, std::span<const int32_t> tokens, const Activations& act) const;
  // Q, K and V of the layer; Q and K normalised and rotated, K and V written into the store
  void project_qkv(Stream& stream, int layer, const Activations& act, const RopeTable& rope,
                   const KvAppend& append) const;
  // x += attention output projected; x += feed-forward; normed = x behind the next layer's norm (or the output norm)
  void finish_layer(Stream& stream, int layer, const Activations& act) const;
  // logits [rows, vocab] of the rows of normed
  void logits(Stream& stream, Matrix normed, Matrix out) const;

  Matrix query(const Activations& act) const { return act.qkv.columns(0, query_width()); }
  int64_t query_width() const { return static_cast<int64_t>(config_.heads) * config_.head_dim; }
  int64_t kv_width() const { return static_cast<int64_t>(config_.kv_heads) * config_.head_dim; }

 private:
  Config config_;
  Weights weights_;
};

}  // namespace ei::model
