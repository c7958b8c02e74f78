#include "backend/cuda/cuda_host_jobs.h"

#include <cstring>
#include <system_error>

#include "backend/cuda/cuda_memory.h"
#include "kernels/cuda/handshake.h"

namespace ei {

namespace {
constexpr size_t kApart = 256;  // bytes
constexpr int kPolls = 2000;    // before others may have the core
}  // namespace

CudaHostJobs::~CudaHostJobs() {
  if (!thread_.joinable()) return;
  settle();
  {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Status CudaHostJobs::start() {
  if (thread_.joinable()) return {};
  EI_ASSIGN_OR_RETURN(words_, allocate_pinned(2 * kApart));
  std::memset(words_.data(), 0, 2 * kApart);
  reached_ = static_cast<uint32_t*>(words_.data());
  done_ = reached_ + kApart / sizeof(uint32_t);
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error& error) {
    return make_error(ErrorKind::kMemory,
                      "could not start a thread for the GPU's jobs on the host (%s); end other sessions",
                      error.code().message().c_str());
  }
  return {};
}

Status CudaHostJobs::enqueue(std::function<void()> job, cudaStream_t stream) {
  EI_RETURN_IF_ERROR(start());
  {
    // Before the launch, which a debugger may let return only when the kernel has.
    const std::scoped_lock lock(mutex_);
    jobs_.push_back({++last_, std::move(job)});
  }
  changed_.notify_one();
  return kernels::cuda::launch_handshake(reached_, done_, last_, stream);
}

void CudaHostJobs::settle() {
  std::unique_lock lock(mutex_);
  if (jobs_.empty() && !busy_) return;
  jobs_.clear();
  dropped_ = true;
  changed_.wait(lock, [this] { return !busy_; });
  dropped_ = false;
}

void CudaHostJobs::work() {
  const std::atomic_ref<uint32_t> reached(*reached_);
  std::atomic_ref<uint32_t> done(*done_);
  for (;;) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      busy_ = false;
      changed_.notify_all();
      changed_.wait(lock, [this] { return ended_ || !jobs_.empty(); });
      if (ended_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
      busy_ = true;
    }
    int polls = 0;
    while (!dropped_ && static_cast<int32_t>(reached.load(std::memory_order_acquire) - job.number) < 0)
      if (++polls > kPolls) std::this_thread::yield();
    if (!dropped_) job.run();
    done.store(job.number, std::memory_order_release);
  }
}

}  // namespace ei
