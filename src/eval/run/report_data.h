// The data of the report page: the summary, and single facts by depth and length.
#pragma once

#include <string>
#include <vector>

#include "eval/run/summary.h"

namespace ei::eval {

std::string report_json(const Summary& summary, const std::vector<ItemResult>& results, const std::string& title,
                        const std::string& notes);

}  // namespace ei::eval
