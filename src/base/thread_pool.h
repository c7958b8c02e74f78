// A plain pool for what runs kernels outside the forward pass: tests and benchmarks. The forward pass runs on the
// backend's own pool.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/workers.h"

namespace ei {

class ThreadPool {
 public:
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return num_threads_; }
  // Calls job once per thread (the caller is worker 0) and returns when all have finished. Not reentrant.
  void run(const std::function<void(Worker)>& job);

 private:
  void serve(int index);

  const int num_threads_;
  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable done_;
  const std::function<void(Worker)>* job_ = nullptr;
  int64_t generation_ = 0;
  int running_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ei
