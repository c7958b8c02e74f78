// For tests of the scheduler: a sink that counts how its tasks end, and may throw at whatever it is told.
#pragma once

#include <atomic>
#include <new>
#include <string>
#include <vector>

#include "server/scheduler/task.h"

namespace ei::server {

class CountingSink : public TaskSink {
 public:
  explicit CountingSink(bool throws = false) : throws_(throws) {}
  void waits() override { told(); }
  void progress(const TaskReport&) override { told(); }
  void token(const TaskToken&, const TaskReport&) override { told(); }
  void prompt(std::vector<TaskToken>) override { told(); }
  void finished(const std::string&, const TaskReport&) override {
    ++answered;
    told();
  }
  void failed(const Error&) override {
    ++refused;
    told();
  }

  std::atomic<int> answered{0};
  std::atomic<int> refused{0};

 private:
  void told() const {
    if (throws_) throw std::bad_alloc();
  }
  const bool throws_;
};

}  // namespace ei::server
