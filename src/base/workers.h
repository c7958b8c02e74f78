// How one operation is divided among threads: every worker calls the same function with its own index, and takes
// numbered pieces of work from a shared queue, so that uneven pieces (causal triangles) balance by themselves.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

#include "base/cancel.h"

namespace ei {

class WorkQueue {
 public:
  // The next piece, or a number >= the count of pieces when all are taken. Pieces are handed out in ascending order.
  // After a cancellation no further piece is handed out.
  int64_t take() {
    if (cancel_ != nullptr && cancel_->cancelled()) return std::numeric_limits<int64_t>::max();
    return next_.fetch_add(1, std::memory_order_relaxed);
  }
  void reset() { next_.store(0, std::memory_order_relaxed); }
  void watch(const CancelToken* cancel) { cancel_ = cancel; }

 private:
  alignas(64) std::atomic<int64_t> next_{0};
  const CancelToken* cancel_ = nullptr;
};

struct Worker {
  int index = 0;
  int count = 1;
};

// The half-open range of `total` items that belongs to this worker when work is even.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
};
inline Range even_share(int64_t total, Worker worker) {
  return {total * worker.index / worker.count, total * (worker.index + 1) / worker.count};
}

}  // namespace ei
