#include "report/page.h"

#include "base/check.h"

namespace ei::report {

namespace {
constexpr std::string_view kDataMark = "{{data}}";

std::string with_data(std::string_view source, std::string_view json) {
  const size_t mark = source.find(kDataMark);
  EI_CHECK(mark != std::string_view::npos);
  std::string page(source.substr(0, mark));
  page += script_safe(json);
  page += source.substr(mark + kDataMark.size());
  return page;
}
}  // namespace

std::string script_safe(std::string_view json) {
  std::string safe;
  safe.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      safe += "\\u003c";  // in JSON it stands in strings only
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string make_page(std::string_view json) { return with_data(page_source(), json); }
std::string make_eval_page(std::string_view json) { return with_data(eval_page_source(), json); }

}  // namespace ei::report
