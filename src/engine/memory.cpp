#include "engine/memory.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "backend/dense_provider.h"
#include "base/clock.h"
#include "model/model.h"

namespace ei {

namespace {

constexpr uint32_t kTypeF32 = 0;  // ggml's number

// The matrices of the layers as they are loaded: Q, K and V stacked, gate and up stacked. A stack with a part in F32
// counts as F32.
std::vector<HostTensor> layer_matrices(const gguf::File& file) {
  static constexpr std::array<std::array<std::string_view, 3>, 5> kStacks{
      {{"attn_qkv"}, {"attn_q", "attn_k", "attn_v"}, {"attn_output"}, {"ffn_gate", "ffn_up"}, {"ffn_down"}}};
  std::vector<HostTensor> matrices;
  for (int layer = 0;; ++layer) {
    const size_t before = matrices.size();
    for (const auto& stack : kStacks) {
      HostTensor stacked;
      for (const std::string_view part : stack) {
        const gguf::Tensor* tensor = file.tensor(str_format("blk.%d.%s.weight", layer, std::string(part).c_str()));
        if (tensor == nullptr) continue;
        const uint32_t type = stacked.rows > 0 && stacked.type == kTypeF32 ? kTypeF32 : tensor->type->id;
        stacked = {tensor->name, type, stacked.rows + tensor->rows(), tensor->cols(), tensor->data, file.mapping()};
      }
      if (stacked.rows > 0) matrices.push_back(stacked);
    }
    if (matrices.size() == before) return matrices;
  }
}

int64_t weight_bytes(const gguf::File& file) {
  int64_t bytes = 0;
  for (const gguf::Tensor& tensor : file.tensors()) bytes += tensor.bytes;
  return bytes;
}

// What products in bf16 take beside the weights: the rows of a chunk, and a slice of each kind of matrix for those that
// are not kept packed.
int64_t product_bytes(const model::Config& config, int64_t chunk) {
  const int64_t width = config.width;
  const int64_t ffn = config.ffn_width;
  const int64_t q = static_cast<int64_t>(config.heads) * config.head_dim;
  const int64_t kv = static_cast<int64_t>(config.kv_heads) * config.head_dim;
  int64_t elements = chunk * std::max({width, ffn, q});
  for (const auto& [rows, cols] : {std::pair{q + 2 * kv, width}, {width, q}, {2 * ffn, width}, {width, ffn}}) {
    const int64_t slice = DenseProvider::slice_rows(rows, cols);
    elements += (slice + rows % slice) * cols;
  }
  return elements * static_cast<int64_t>(sizeof(uint16_t));
}

}  // namespace

MemoryNeed memory_need(const model::Config& config, const gguf::File& file, int64_t tokens, DType key_type,
                       DType value_type, int64_t batch) {
  MemoryNeed need;
  need.weights = weight_bytes(file);
  need.kv = tokens * config.kv_bytes_per_token(key_type, value_type);
  const int64_t rows = std::min(tokens, batch > 0 ? batch : default_chunk(config));
  need.scratch = model::activation_bytes(config, rows, rows, 1);
  return need;
}

int64_t packed_need(const gguf::File& file, const Backend& backend) {
  return backend.packed_bytes(layer_matrices(file));
}

int64_t held_need(const gguf::File& file, const Backend& backend) {
  int64_t bytes = 0;
  for (const gguf::Tensor& tensor : file.tensors()) {
    bytes +=
        backend.held_bytes({tensor.name, tensor.type->id, tensor.rows(), tensor.cols(), tensor.data, file.mapping()});
  }
  return bytes;
}

std::string backend_detail(const gguf::File& file, const Backend& backend, DType key_type, DType value_type) {
  return backend.describe(key_type, value_type, layer_matrices(file));
}

int64_t default_chunk(const model::Config& config) {
  constexpr int64_t kMost = 1024;
  constexpr int64_t kLeast = 256;
  int64_t chunk = kMost;
  while (chunk > kLeast && model::activation_bytes(config, chunk, chunk, 0) > kBesideBytes / 2) chunk /= 2;
  return chunk;
}

int64_t chunk_for(const model::Config& config, const Backend& backend) {
  if (backend.free_memory() >= 0) return backend.preferred_chunk();
  return std::min(backend.preferred_chunk(), default_chunk(config));
}

int64_t free_bytes(const Backend& backend) {
  const int64_t own = backend.free_memory();
  return own >= 0 ? own : available_memory_bytes();
}

int64_t beside_need(const model::Config& config) {
  constexpr int64_t kFixed = int64_t{40} << 20;  // program, graph, attention
  constexpr int64_t kPerToken = 256;             // of the vocabulary
  const int64_t chunk = default_chunk(config);
  return kFixed + kPerToken * config.vocab + model::activation_bytes(config, chunk, chunk, 1) +
         product_bytes(config, chunk);
}

BackendOptions with_packed_budget(BackendOptions options, const model::Config& config, const gguf::File& file) {
  if (options.packed_budget < 0) options.packed_budget = std::max<int64_t>(0, kBesideBytes - beside_need(config));
  // Half of what the weights leave stays for the cache and for others.
  if (const int64_t available = available_memory_bytes(); available >= 0) {
    const int64_t left = std::max<int64_t>(0, available - weight_bytes(file));
    options.packed_budget = std::min(options.packed_budget, left / 2);
  }
  return options;
}

}  // namespace ei
