// The CPU device of ggml behind one small class: its pool of threads, its buffer types for repacked weights, and the
// running of graphs. Only generic backend calls are used, so that a portable build can load ggml's CPU variant at run
// time.
#pragma once

#include <ggml-backend.h>
#include <ggml.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"

namespace ei {

class GgmlDevice {
 public:
  static Result<std::unique_ptr<GgmlDevice>> create(int threads);
  ~GgmlDevice();

  int threads() const { return threads_; }
  // Runs a graph on the pool; one graph at a time, whoever calls. kInterrupted when `cancel` was raised.
  Status compute(ggml_cgraph* graph, const CancelToken* cancel);
  // The buffer type that holds `type` weights [rows, cols] in a form with faster kernels, or null.
  ggml_backend_buffer_type_t repacked_type(ggml_type type, int64_t rows, int64_t cols) const;

 private:
  GgmlDevice() = default;

  int threads_ = 1;
  ggml_backend_dev_t device_ = nullptr;
  ggml_backend_t backend_ = nullptr;
  ggml_threadpool* pool_ = nullptr;
  void (*free_pool_)(ggml_threadpool*) = nullptr;
  void (*set_abort_)(ggml_backend_t, ggml_abort_callback, void*) = nullptr;
  std::vector<ggml_backend_buffer_type_t> extra_types_;
  std::mutex mutex_;
};

}  // namespace ei
