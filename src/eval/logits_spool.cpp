#include "eval/logits_spool.h"

#include <cerrno>
#include <cstring>

namespace ei::eval {

Result<LogitsSpool> LogitsSpool::open() {
  LogitsSpool spool;
  spool.file_.reset(std::tmpfile());
  if (spool.file_ == nullptr) {
    return make_error(ErrorKind::kRuntime, "cannot make a temporary file: %s", std::strerror(errno));
  }
  return spool;
}

void LogitsSpool::rewind() { std::rewind(file_.get()); }

void LogitsSpool::write(std::span<const float> row) {
  failed_ = failed_ || std::fwrite(row.data(), sizeof(float), row.size(), file_.get()) != row.size();
}

std::span<const float> LogitsSpool::read(size_t count) {
  row_.resize(count);
  failed_ = failed_ || std::fread(row_.data(), sizeof(float), count, file_.get()) != count;
  return row_;
}

Status LogitsSpool::status() const {
  if (!failed_) return {};
  return Error{ErrorKind::kRuntime, "cannot keep the logits in a temporary file: is the disk full?"};
}

}  // namespace ei::eval
