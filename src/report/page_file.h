// PageFile: a page on disk, opened before the work it reports on is paid for, there only when it is whole.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "kv/file_stream.h"

namespace ei::report {

class PageFile {
 public:
  explicit PageFile(const std::string& path) : file_(path) {}

  // kRuntime when no file can be written there. An older file stays as it is until finish().
  Status open() { return file_.open(); }
  // Replaces what the path holds. Returns the bytes written.
  Result<int64_t> finish(std::string_view page);

 private:
  kv::FileWriter file_;
};

}  // namespace ei::report
