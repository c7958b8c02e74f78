// The weights of one model on one backend, checked against the config's shapes. Optional ones are null.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "gguf/file.h"
#include "model/config.h"

namespace ei::model {

using WeightPtr = std::unique_ptr<Weight>;

struct LayerWeights {
  WeightPtr attention_norm;  // [width]
  WeightPtr qkv;             // [(heads + 2 kv_heads) * head_dim, width]
  WeightPtr qkv_bias;
  WeightPtr q_norm;         // [head_dim]
  WeightPtr k_norm;         // [head_dim]
  WeightPtr attention_out;  // [width, heads * head_dim]
  WeightPtr attention_out_bias;
  WeightPtr attention_post_norm;
  WeightPtr ffn_norm;  // [width]
  WeightPtr gate_up;   // [2 * ffn_width, width]
  WeightPtr gate_up_bias;
  WeightPtr down;  // [width, ffn_width]
  WeightPtr down_bias;
  WeightPtr ffn_post_norm;
};

struct Weights {
  WeightPtr embedding;    // table [vocab, width]
  WeightPtr output_norm;  // [width]
  WeightPtr output;       // [vocab, width]; the embedding again when tied
  WeightPtr output_bias;
  std::vector<LayerWeights> layers;
};

// Whether load_weights would find what it wants: the names, shapes and types alone.
Status check_tensors(const gguf::File& file, const Config& config);
// kInterrupted behind the matrix during which `cancel` (may be null) was raised.
Result<Weights> load_weights(const gguf::File& file, const Config& config, const Backend& backend,
                             const CancelToken* cancel = nullptr);

}  // namespace ei::model
