// Scores of answers that another program generated for the items of a run (--dump-items).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "eval/items/source.h"
#include "eval/run/result.h"

namespace ei::eval {

// `text`: JSON lines with item, method and prediction (or predictions, one for each turn). kUsage names the line that
// is wrong, or asks about an item that the source does not have.
Result<std::vector<ItemResult>> score_predictions(const ItemSource& source, const std::string& text);

}  // namespace ei::eval
