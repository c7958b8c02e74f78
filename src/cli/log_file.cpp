#include "cli/log_file.h"

#include <utility>

namespace ei::cli {

Status LogFile::open() {
  std::ofstream file(path_, std::ios::app);
  if (!file) return make_error(ErrorKind::kUsage, "cannot write --access-log %s", path_.c_str());
  const std::lock_guard lock(mutex_);
  file_ = std::move(file);
  return {};
}

void LogFile::append(const std::string& line) {
  const std::lock_guard lock(mutex_);
  file_.clear();
  file_ << line << std::endl;
}

}  // namespace ei::cli
