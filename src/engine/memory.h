// What a run needs, computed from the model file alone, before anything is allocated; and what follows from it for the
// parts that can be larger or smaller: the chunks of a prompt and second copies of the weights.
#pragma once

#include <string>

#include "backend/backend.h"
#include "gguf/file.h"
#include "model/config.h"

namespace ei {

struct MemoryNeed {
  int64_t weights = 0;
  int64_t packed = 0;   // second copies of weights for prompts, see packed_need
  int64_t kv = 0;       // keys and values of `tokens` tokens
  int64_t scratch = 0;  // activations of one chunk
  int64_t total() const { return weights + packed + kv + scratch; }
};
// `batch`: tokens of a chunk; 0: the default.
MemoryNeed memory_need(const model::Config& config, const gguf::File& file, int64_t tokens, DType key_type,
                       DType value_type, int64_t batch);
// What a backend would add for its own copies of the layers' matrices.
int64_t packed_need(const gguf::File& file, const Backend& backend);
// What the weights take in memory of the backend's own.
int64_t held_need(const gguf::File& file, const Backend& backend);
// How a backend computes with this model and such a cache, in one line.
std::string backend_detail(const gguf::File& file, const Backend& backend, DType key_type, DType value_type);

// What a prompt of any length takes beside weights and cache with full attention, unless the user allows more.
inline constexpr int64_t kBesideBytes = 300'000'000;
// Tokens of one chunk unless the caller chooses: enough rows for the matrix kernels, activations in half of that
// memory, and a progress report and a chance to cancel many times a second on small models.
int64_t default_chunk(const model::Config& config);
// The same on a backend; one with memory of its own has room for the chunks it likes.
int64_t chunk_for(const model::Config& config, const Backend& backend);
// Bytes free for the cache and the activations of a backend; negative when nobody knows.
int64_t free_bytes(const Backend& backend);
// What a prompt takes beside weights and cache in such chunks, without packed copies.
int64_t beside_need(const model::Config& config);
// The options with the memory for packed copies settled: what the user said, or what is left of kBesideBytes, and no
// more than half of what would be free behind the weights.
BackendOptions with_packed_budget(BackendOptions options, const model::Config& config, const gguf::File& file);

}  // namespace ei
