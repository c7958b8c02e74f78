// Engine: a loaded model on a backend. Const after load; any number of sessions run on it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backend/backend.h"
#include "base/cancel.h"
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
  gguf::Overrides overrides;            // metadata in place of the file's
  bool copy_file = false;               // read the file into memory instead of mapping it
  const CancelToken* cancel = nullptr;  // kInterrupted soon after it was raised, while weights are loaded
  // A backend that is not in the registry, instead of `backend`.
  std::function<Result<std::unique_ptr<Backend>>(const BackendOptions&)> make_backend = nullptr;
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
  friend class DecodeBatch;
  struct State;
  explicit Engine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ei
