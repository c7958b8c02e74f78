// model::Config: what a GGUF says about its model, checked and in one shape for all families. A family is data:
// model.cpp asks for facts (qk_norm, window, ...), never for a family's name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "gguf/file.h"
#include "tensor/rope.h"

namespace ei::model {

struct LayerFacts {
  int32_t window = 0;  // sliding window in tokens; 0: global attention
  int32_t rope = 0;    // index into Config::ropes
};

struct Config {
  std::string arch;  // "llama", "qwen2", "qwen3", "pangu-embedded", "gemma3"
  std::string name;
  int32_t layers = 0;
  int32_t width = 0;
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  int32_t ffn_width = 0;
  int32_t vocab = 0;
  int32_t context = 0;  // trained context length
  int32_t rope_dims = 0;
  bool rope_interleaved = false;
  float norm_eps = 1e-5f;
  float attention_scale = 0;
  bool scaled_queries = false;  // queries are multiplied by it, not their products with keys: the same but for rounding
  float embedding_scale = 1.0f;
  float logit_softcap = 0;  // 0: none
  Activation activation = Activation::kSilu;
  bool qk_norm = false;          // RMS norm on every head of Q and K before the rotation
  bool post_norms = false;       // norms behind attention and feed-forward too (Gemma)
  bool scales = false;           // tensors with a scale beside each matrix are understood
  bool ignores_factors = false;  // rope_freqs.weight may be there and says nothing
  std::vector<Rope> ropes;
  std::vector<LayerFacts> per_layer;  // [layers]

  int32_t group() const { return heads / kv_heads; }
  // Multiply-adds of one token with the weights of all layers.
  double products_per_token() const;
  // Bytes of K and V that one token adds over all layers.
  int64_t kv_bytes_per_token(DType key_type, DType value_type) const;
};

Result<Config> read_config(const gguf::File& file);
// "llama, qwen2, ..." for messages and `info`.
std::string supported_architectures();
std::vector<std::string_view> architecture_names();

}  // namespace ei::model
