// How long the GPU was busy with each kind of operation, by events around them.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

namespace ei {

class CudaClock {
 public:
  CudaClock() = default;
  CudaClock(const CudaClock&) = delete;
  CudaClock& operator=(const CudaClock&) = delete;
  ~CudaClock();

  // Both in the stream's order; `seconds` outlives the clock. `follows`: nothing was enqueued since the last end(),
  // whose event then is the beginning as well: each one stops the stream for some 2 us.
  void begin(cudaStream_t stream, double* seconds, bool follows);
  void end(cudaStream_t stream);
  // Behind a synchronisation: adds what was measured.
  void collect();

 private:
  struct Span {
    cudaEvent_t begin = nullptr;
    cudaEvent_t end = nullptr;
    double* seconds = nullptr;
    bool follows = false;  // begins where the one before ends
  };
  std::vector<Span> spans_;  // the first `used_` of them since the last collect()
  size_t used_ = 0;
  int depth_ = 0;  // a span inside another one counts for that
};

}  // namespace ei
