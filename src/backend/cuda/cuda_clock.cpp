#include "backend/cuda/cuda_clock.h"

namespace ei {

CudaClock::~CudaClock() {
  for (const Span& span : spans_) {
    cudaEventDestroy(span.begin);
    cudaEventDestroy(span.end);
  }
}

void CudaClock::begin(cudaStream_t stream, double* seconds, bool follows) {
  if (depth_++ > 0) return;
  if (used_ == spans_.size()) {
    Span span;
    if (cudaEventCreate(&span.begin) != cudaSuccess) return;
    if (cudaEventCreate(&span.end) != cudaSuccess) {
      cudaEventDestroy(span.begin);
      return;
    }
    spans_.push_back(span);
  }
  spans_[used_].seconds = seconds;
  spans_[used_].follows = follows && used_ > 0;
  if (!spans_[used_].follows) cudaEventRecord(spans_[used_].begin, stream);
}

void CudaClock::end(cudaStream_t stream) {
  if (--depth_ > 0) return;
  if (used_ == spans_.size()) return;
  cudaEventRecord(spans_[used_].end, stream);
  ++used_;
}

void CudaClock::collect() {
  for (size_t i = 0; i < used_; ++i) {
    float milliseconds = 0;
    const cudaEvent_t begin = spans_[i].follows ? spans_[i - 1].end : spans_[i].begin;
    if (cudaEventElapsedTime(&milliseconds, begin, spans_[i].end) == cudaSuccess)
      *spans_[i].seconds += static_cast<double>(milliseconds) / 1000;
  }
  cudaGetLastError();
  used_ = 0;
}

}  // namespace ei
