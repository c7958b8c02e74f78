// Engine: a loaded model on a backend. Const after load; any number of sessions run on it.
#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"
#include "base/result.h"
#include "engine/session.h"
#include "gguf/file.h"
#include "model/config.h"
#include "model/model_file.h"
#include "text/tokenizer.h"

namespace ei {

struct EngineOptions {
  std::string model_path;
  std::string backend = "cpu";
  BackendOptions backend_options;
};

class Engine {
 public:
  static Result<std::unique_ptr<Engine>> load(const EngineOptions& options);
  ~Engine();

  const model::Config& config() const;
  const text::Tokenizer& tokenizer() const;
  const Backend& backend() const;
  const gguf::File& file() const;
  int64_t weight_bytes() const;  // memory held by the weights
  uint64_t model_hash() const;   // names the model in saved caches
  double load_s() const;

  Result<std::unique_ptr<Session>> new_session(const SessionOptions& options) const;

 private:
  friend class Session;
  struct State;
  explicit Engine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// What a run would need, computed from the file alone, before anything is allocated.
struct MemoryNeed {
  int64_t weights = 0;
  int64_t packed = 0;   // second copies of weights for prompts, see packed_need
  int64_t kv = 0;       // keys and values of `tokens` tokens
  int64_t scratch = 0;  // activations of one chunk
  int64_t total() const { return weights + packed + kv + scratch; }
};
MemoryNeed memory_need(const model::Config& config, const gguf::File& file, int64_t tokens, DType key_type,
                       DType value_type, int64_t batch);
// What a backend would add for its own copies of the layers' matrices.
int64_t packed_need(const gguf::File& file, const Backend& backend);
// How a backend computes with this model and such a cache, in one line.
std::string backend_detail(const gguf::File& file, const Backend& backend, DType key_type, DType value_type);

}  // namespace ei
