// LogFile: lines appended to a file that may be moved away meanwhile, or whose disk may be full for a while.
#pragma once

#include <fstream>
#include <mutex>
#include <string>

#include "base/result.h"

namespace ei::cli {

class LogFile {
 public:
  explicit LogFile(std::string path) : path_(std::move(path)) {}
  // Under its name: a new file where the old one was moved away. An error leaves the one that is open.
  Status open();
  // Any thread. A line that cannot be written is lost, the next one is tried again.
  void append(const std::string& line);

 private:
  const std::string path_;
  std::mutex mutex_;
  std::ofstream file_;
};

}  // namespace ei::cli
