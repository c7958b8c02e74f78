// ReportFile: a report on disk. Whether it can be written is asked before the work it reports on is paid for; it is
// there only when it is whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "kv/file_stream.h"

namespace ei::report {

class ReportFile {
 public:
  explicit ReportFile(std::string path) : path_(std::move(path)) {}

  // kRuntime when no file can be written there. Leaves nothing behind, so that a program that is killed over the work
  // does not either.
  Status check() const { return kv::FileWriter(path_).open(); }
  // What the path holds stays as it is until commit().
  Status put(std::string_view text);
  // Replaces what the path holds. Returns the bytes written.
  Result<int64_t> commit();

 private:
  Status open();

  std::string path_;
  std::optional<kv::FileWriter> file_;
  int64_t bytes_ = 0;
};

}  // namespace ei::report
