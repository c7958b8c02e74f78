#include <cmath>

#include "server/api/completion_format.h"

namespace ei::server {

namespace {
// Three digits are what a colour or a table shows; a NaN becomes null.
Json digits(double value) { return std::isfinite(value) ? Json(std::round(value * 1e3) / 1e3) : Json(nullptr); }
}  // namespace

Json head_trace_json(const HeadTrace& heads) {
  Json columns = Json::array();
  for (const HeadColumn& column : heads.columns) {
    Json entropy = Json::array();
    Json read = Json::array();
    for (const double value : column.entropy) entropy.push_back(digits(value));
    for (const double value : column.read) read.push_back(digits(value));
    columns.push_back({{"segment", column.segment}, {"entropy", std::move(entropy)}, {"read", std::move(read)}});
  }
  return {{"segment_tokens", heads.segment_tokens},
          {"layers", heads.layers},
          {"kv_heads", heads.kv_heads},
          {"columns", std::move(columns)}};
}

Json head_summary_json(const HeadTrace& heads) {
  Json list = Json::array();
  for (const report::HeadSummary& head : heads.summary)
    list.push_back({{"layer", head.layer},
                    {"kv_head", head.kv_head},
                    {"class", head.rigid ? "rigid" : "dynamic"},
                    {"type", policy::head_type_name(head.type)},
                    {"entropy", digits(head.entropy)},
                    {"row_entropy", digits(head.row_entropy)},
                    {"far", digits(head.far)},
                    {"share_read", digits(head.share_read)}});
  return list;
}

}  // namespace ei::server
