#include "server/text_thread.h"

#include <utility>

#include "server/exceptions.h"

namespace ei::server {

TextThread::TextThread(size_t most) : most_(most), thread_([this] { run(); }) {}

TextThread::~TextThread() { stop(); }

void TextThread::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool TextThread::post(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    if (jobs_.size() >= most_) return false;
    jobs_.push_back(std::move(job));
  }
  wake_.notify_all();
  return true;
}

bool TextThread::idle() const {
  const std::lock_guard lock(mutex_);
  return jobs_.empty() && !busy_;
}

void TextThread::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    busy_ = true;
    lock.unlock();
    contain(job);
    job = nullptr;
    lock.lock();
    busy_ = false;
  }
}

}  // namespace ei::server
