#include "engine/memory.h"

#include <algorithm>

#include "backend/dense_provider.h"
#include "model/model.h"

namespace ei {

namespace {

std::vector<HostTensor> layer_matrices(const gguf::File& file) {
  std::vector<HostTensor> matrices;
  for (const gguf::Tensor& tensor : file.tensors()) {
    if (tensor.rows() == 1 || !tensor.name.starts_with("blk.")) continue;
    matrices.push_back({tensor.name, tensor.type->id, tensor.rows(), tensor.cols(), tensor.data, file.mapping()});
  }
  return matrices;
}

// What products in bf16 take beside the weights: the rows of a chunk, and a slice of each kind of matrix for those that
// are not kept packed.
int64_t product_bytes(const model::Config& config, int64_t chunk) {
  const int64_t width = config.width;
  const int64_t ffn = config.ffn_width;
  const int64_t q = static_cast<int64_t>(config.heads) * config.head_dim;
  const int64_t kv = static_cast<int64_t>(config.kv_heads) * config.head_dim;
  int64_t elements = chunk * std::max({width, ffn, q});
  for (const auto& [rows, cols] : {std::pair{q + 2 * kv, width}, {width, q}, {2 * ffn, width}, {width, ffn}})
    elements += DenseProvider::slice_rows(rows, cols) * cols;
  return elements * static_cast<int64_t>(sizeof(uint16_t));
}

}  // namespace

MemoryNeed memory_need(const model::Config& config, const gguf::File& file, int64_t tokens, DType key_type,
                       DType value_type, int64_t batch) {
  MemoryNeed need;
  for (const gguf::Tensor& tensor : file.tensors()) need.weights += tensor.bytes;
  need.kv = tokens * config.kv_bytes_per_token(key_type, value_type);
  const int64_t rows = std::min(tokens, batch > 0 ? batch : default_chunk(config));
  need.scratch = model::activation_bytes(config, rows, 1);
  return need;
}

int64_t packed_need(const gguf::File& file, const Backend& backend) {
  return backend.packed_bytes(layer_matrices(file));
}

std::string backend_detail(const gguf::File& file, const Backend& backend, DType key_type, DType value_type) {
  return backend.describe(key_type, value_type, layer_matrices(file));
}

int64_t default_chunk(const model::Config& config) {
  constexpr int64_t kMost = 1024;
  constexpr int64_t kLeast = 512;  // unpacking weights for fewer would take a quarter of the time
  return model::activation_bytes(config, kMost, 0) <= kBesideBytes / 2 ? kMost : kLeast;
}

BackendOptions with_packed_budget(BackendOptions options, const model::Config& config) {
  if (options.packed_budget >= 0) return options;
  constexpr int64_t kFixed = int64_t{32} << 20;  // program, graph, attention
  constexpr int64_t kPerToken = 256;             // of the vocabulary
  const int64_t chunk = default_chunk(config);
  const int64_t taken =
      kFixed + kPerToken * config.vocab + model::activation_bytes(config, chunk, 1) + product_bytes(config, chunk);
  options.packed_budget = std::max<int64_t>(0, kBesideBytes - taken);
  return options;
}

}  // namespace ei
