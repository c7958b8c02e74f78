// A generated token repeats the operations of the one before, on the same memory: they are recorded, and from the third
// time on replayed as one CUDA graph. What differs from token to token (tables, angles, lengths) is data.
#pragma once

#include <cuda_runtime_api.h>

#include <bit>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "kernels/cuda/device_rows.h"

namespace ei {

class CudaGraph {
 public:
  using Job = std::function<Status()>;

  CudaGraph() = default;
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  ~CudaGraph();

  bool empty() const { return jobs_.empty(); }
  // Records `job`, which enqueues on the stream and whose work depends on nothing but `parts`.
  template <typename... Parts>
  void add(Job job, const Parts&... parts) {
    (append(parts), ...);
    key_.push_back(kEnd);
    jobs_.push_back(std::move(job));
  }
  // What is recorded now cannot be repeated.
  void refuse() { repeatable_ = false; }
  // Enqueues everything recorded and forgets it.
  Status run(cudaStream_t stream);
  void forget();

 private:
  static constexpr uint64_t kEnd = 0x9e3779b97f4a7c15u;

  void append(const void* address) { key_.push_back(reinterpret_cast<uintptr_t>(address)); }
  void append(int64_t number) { key_.push_back(static_cast<uint64_t>(number)); }
  void append(int32_t number) { append(int64_t{number}); }
  void append(float number) { key_.push_back(std::bit_cast<uint32_t>(number)); }
  void append(const kernels::cuda::DeviceRows& rows);

  Status enqueue();
  Status capture(cudaStream_t stream);
  void drop();

  std::vector<uint64_t> key_;  // of what is recorded
  std::vector<Job> jobs_;
  bool repeatable_ = true;
  std::vector<uint64_t> last_key_;   // of what ran last
  cudaGraphExec_t graph_ = nullptr;  // of that, once it was repeated
};

}  // namespace ei
