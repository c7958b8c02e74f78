#include "report/page_file.h"

namespace ei::report {

Result<int64_t> PageFile::finish(std::string_view page) {
  EI_RETURN_IF_ERROR(file_.put(page.data(), page.size()));
  EI_RETURN_IF_ERROR(file_.commit());
  return static_cast<int64_t>(page.size());
}

}  // namespace ei::report
