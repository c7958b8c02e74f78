// What a session decided and kept, gathered for a page: plans per layer and kv_head, survivors of the cache, the text.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/session.h"
#include "policy/kv/options.h"

namespace ei::report {

struct InspectionInput {
  const Session& session;           // its planner must have kept the blocks
  std::span<const int32_t> tokens;  // the prompt, then what was generated
  int64_t prompt_tokens = 0;
  policy::KvOptions kv;
  std::string run;  // one JSON object: what the answer cost
};
// One JSON object; page/data.js reads it.
std::string inspection_json(const InspectionInput& input);

}  // namespace ei::report
