// What a sparse prefill made of every kv_head, in a line each.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/session.h"
#include "policy/prefill/method.h"

namespace ei::report {

struct HeadSummary {
  int layer = 0;
  size_t kv_head = 0;
  bool rigid = false;  // at the end of the text, like what follows
  policy::HeadType type{};
  double entropy = 0;  // the one that decides (layer_plan.h)
  double row_entropy = 0;
  double far = 0;
  double share_read = 0;  // of the text before its segments, wherever it chose
};

// Of every layer that chose blocks; none where everything was read.
std::vector<HeadSummary> head_summaries(const Session& session);

}  // namespace ei::report
