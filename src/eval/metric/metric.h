// Which score an item asks for, by name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ei::eval {

// What a prediction is compared with.
struct Gold {
  std::vector<std::string> answers{};  // alternatives, or the parts of one answer, as the metric takes them
  std::vector<std::string> classes{};  // for classification
};

struct Metric {
  std::string_view name;
  std::string_view summary;
  bool first_line;  // only the first non-empty line of a prediction counts
  double (*score)(const Gold& gold, std::string_view prediction);
};
std::span<const Metric> metrics();
// kUsage, naming all metrics, when there is none of that name.
Result<const Metric*> find_metric(std::string_view name);

// From 0 to 1.
double score_of(const Metric& metric, const Gold& gold, std::string_view prediction);

}  // namespace ei::eval
