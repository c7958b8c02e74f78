// The pages of `inspect` and `eval`: one HTML file each that needs nothing else, with its data inside.
#pragma once

#include <string>
#include <string_view>

namespace ei::report {

// Style, scripts and markup of the page (src/report/page/) in one text, put together by the build.
std::string_view page_source();
// The same of src/report/eval_page/.
std::string_view eval_page_source();

// JSON that can stand inside a <script> element: no '<' is left to end it or to open a comment.
std::string script_safe(std::string_view json);

// The whole file. `json`: what inspection_json() returns.
std::string make_page(std::string_view json);
// `json`: what eval::report_json() returns.
std::string make_eval_page(std::string_view json);

}  // namespace ei::report
