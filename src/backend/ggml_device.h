// The CPU device of ggml behind one small class: its pool of threads, its buffer types for repacked weights, and the
// running of graphs. Only generic backend calls are used, so that a portable build can load ggml's CPU variant at run
// time.
#pragma once

#include <ggml-backend.h>
#include <ggml.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "backend/slabs.h"
#include "base/cancel.h"
#include "base/result.h"
#include "base/spare_cores.h"
#include "base/worker_count.h"

namespace ei {

class GgmlDevice {
 public:
  // `threads` for generated tokens, `prompt_threads` for prompts; 0: as many.
  static Result<std::unique_ptr<GgmlDevice>> create(int threads, int prompt_threads = 0);
  ~GgmlDevice();

  int threads() const { return threads_; }  // at most
  struct Watch {
    const CancelToken* cancel = nullptr;  // raised from outside, also while others have the pool; may be null
    const CancelToken* broken = nullptr;  // raised by a node that could not do its work: no further node may run
    bool brief = false;                   // one token: the whole graph takes the same threads
    double waited_s = 0;                  // out: until it was this graph's turn
  };
  // Runs a graph on the pool; one graph at a time, whoever calls. kInterrupted when `cancel` was raised, kMemory when
  // `broken` was.
  Status compute(ggml_cgraph* graph, Watch& watch);
  // The buffer type that holds `type` weights [rows, cols] in a form with faster kernels, or null.
  ggml_backend_buffer_type_t repacked_type(ggml_type type, int64_t rows, int64_t cols) const;
  // Does a row come out bit for bit the same, multiplied by this weight alone and among others? Tried out, once for
  // each kind of weight.
  bool rows_alike(const ggml_tensor& weight);
  // Does ggml multiply this weight as if nothing lay between the rows of x, and of the product? So it is with AMX.
  static bool rows_lie_together(const ggml_tensor& weight);
  // Was ggml built for this feature of the CPU ("AVX2")?
  bool built_for(std::string_view feature) const;
  // Room for a tensor of `bytes` in a buffer of that type; null, without a word, where the memory is not there.
  struct Place {
    std::shared_ptr<ggml_backend_buffer> buffer;
    void* data = nullptr;
  };
  Place place(ggml_backend_buffer_type_t type, size_t bytes) const;
  // Writes the whole of a tensor that lies in such a buffer. False when the threads for it cannot be started.
  static bool fill(ggml_tensor* tensor, const void* data);

 private:
  GgmlDevice() = default;
  bool take_turn(const Watch& watch);  // false: cancelled before it came
  void end_turn();
  ggml_status run(ggml_cgraph* graph, bool brief);
  ggml_status run_pieces(ggml_cgraph* graph);
  ggml_status run_brief(ggml_cgraph* graph);
  void look_around(bool brief);
  void employ(int threads);

  int threads_ = 1;
  ggml_backend_dev_t device_ = nullptr;
  ggml_backend_t backend_ = nullptr;
  ggml_threadpool* pool_ = nullptr;   // all threads
  ggml_threadpool* alone_ = nullptr;  // the calling one
  int employed_ = 0;                  // how many the backend has now
  WorkerCount workers_{1};            // of generated tokens
  SpareCores spare_{1};               // of prompts
  bool owns_cores_ = false;           // may use every core of the machine, so what runs there runs on ours
  double ended_s_ = 0;                // when the last graph was done
  bool was_brief_ = false;
  ggml_context* piece_memory_ = nullptr;
  ggml_cgraph* piece_ = nullptr;
  void (*set_pool_)(ggml_backend_t, ggml_threadpool*) = nullptr;
  void (*set_threads_)(ggml_backend_t, int) = nullptr;
  void (*free_pool_)(ggml_threadpool*) = nullptr;
  void (*set_abort_)(ggml_backend_t, ggml_abort_callback, void*) = nullptr;
  std::vector<ggml_backend_buffer_type_t> extra_types_;
  mutable std::map<ggml_backend_buffer_type_t, Slabs> slabs_;                   // of the extra types
  std::mutex alike_mutex_;                                                      // guards alike_
  std::map<std::tuple<int, int64_t, ggml_backend_buffer_type_t>, bool> alike_;  // by type, columns, form
  std::mutex mutex_;                                                            // guards busy_
  std::condition_variable turn_ended_;
  bool busy_ = false;
  // ggml's work buffer could not grow. It keeps a pointer to the one it deleted before, so its backend is neither used
  // again nor freed.
  bool lost_ = false;
};

}  // namespace ei
