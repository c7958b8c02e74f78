// TextThread: runs jobs in their order on a thread of its own. JSON, templates and tokens of long prompts take time
// that neither the I/O thread nor the compute thread has.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace ei::server {

class TextThread {
 public:
  explicit TextThread(size_t most);
  ~TextThread();

  // Returns when the job in work has ended. Those that have not begun are dropped with the thread.
  void stop();
  // False when too many wait.
  bool post(std::function<void()> job);
  bool idle() const;

 private:
  void run();

  const size_t most_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;
  bool busy_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ei::server
