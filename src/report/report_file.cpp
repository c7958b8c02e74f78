#include "report/report_file.h"

namespace ei::report {

Status ReportFile::open() {
  if (file_) return {};
  return file_.emplace(path_).open();
}

Status ReportFile::put(std::string_view text) {
  EI_RETURN_IF_ERROR(open());
  bytes_ += static_cast<int64_t>(text.size());
  return file_->put(text.data(), text.size());
}

Result<int64_t> ReportFile::commit() {
  EI_RETURN_IF_ERROR(open());
  EI_RETURN_IF_ERROR(file_->commit());
  return bytes_;
}

}  // namespace ei::report
