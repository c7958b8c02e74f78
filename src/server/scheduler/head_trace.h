// HeadTrace: how widely the attention of every kv_head spread over the text, segment by segment while a prompt is read
// sparsely. What the page draws.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/session.h"
#include "report/head_summary.h"

namespace ei::server {

struct HeadColumn {
  int32_t segment = 0;            // its number in the text
  std::vector<double> entropy{};  // [layers * kv_heads]; NaN: not measured
  std::vector<double> read{};     // [layers * kv_heads]: share of the text before the segment that it read
};

struct HeadTrace {
  int64_t segment_tokens = 0;
  std::vector<int> layers{};  // those that choose
  size_t kv_heads = 0;
  std::vector<HeadColumn> columns{};           // of the segments since the last trace
  std::vector<report::HeadSummary> summary{};  // once the prompt has been read
};

// Of the segments behind the first `seen` ones that the session has read. Empty where everything is read.
HeadTrace trace_heads(const Session& session, size_t seen);

}  // namespace ei::server
