// What a sparse prefill decided, as one JSON object: about the run, then lists by layer, kv_head and segment.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "engine/session.h"
#include "policy/kv/options.h"
#include "report/report_file.h"

namespace ei::report {

struct PlanInput {
  const Session& session;  // its planner must have kept the blocks
  std::string method;
  int64_t prompt_tokens = 0;
  policy::KvOptions kv;
};
// Layer by layer: the plan of a long text is many megabytes.
Status put_plan(const PlanInput& input, ReportFile& file);

}  // namespace ei::report
