// Jobs of a stream that run on the host, in their turn, on a thread of their own that watches for it.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "base/result.h"
#include "tensor/buffer.h"

namespace ei {

class CudaHostJobs {
 public:
  CudaHostJobs() = default;
  CudaHostJobs(const CudaHostJobs&) = delete;
  CudaHostJobs& operator=(const CudaHostJobs&) = delete;
  ~CudaHostJobs();  // the stream has ended

  // What follows on the stream waits until `job` has run, and it runs when what was enqueued before has finished. It
  // must not throw.
  Status enqueue(std::function<void()> job, cudaStream_t stream);
  // Behind a synchronisation: a stream that failed reaches no further job, so what is left is dropped.
  void settle();

 private:
  struct Job {
    uint32_t number;
    std::function<void()> run;
  };
  Status start();
  void work();

  Buffer words_;  // pinned: reached and done, apart from each other
  uint32_t* reached_ = nullptr;
  uint32_t* done_ = nullptr;
  uint32_t last_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool busy_ = false;                  // with a job that is no longer in the queue
  std::atomic<bool> dropped_ = false;  // the job in work is not to be waited for
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace ei
