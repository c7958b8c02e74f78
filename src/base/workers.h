// How one operation is divided among threads: every worker calls the same function with its own index, and takes
// numbered pieces of work from a shared queue, so that uneven pieces (causal triangles) balance by themselves.
#pragma once

#include <atomic>
#include <cstdint>

namespace ei {

class WorkQueue {
 public:
  // The next piece, or a number >= `count` when all are taken. Pieces are handed out in ascending order.
  int64_t take() { return next_.fetch_add(1, std::memory_order_relaxed); }
  void reset() { next_.store(0, std::memory_order_relaxed); }

 private:
  alignas(64) std::atomic<int64_t> next_{0};
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
