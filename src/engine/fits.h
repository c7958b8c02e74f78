// Does it fit? Asked before anything is allocated, and answered with what it would need.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "engine/session.h"

namespace ei {

// kUsage when a prompt leaves no room in the context.
Status check_prompt_fits(const Session& session, int64_t prompt_tokens);
// kMemory when a cache of `slots` slots per kv_head does not fit beside what the session already holds
// (Session::most_slots says how many a prompt and its answer take).
Status check_cache_fits(const Session& session, int64_t slots);
// Is a text of so many tokens longer than what the model was trained for?
bool beyond_training(const Engine& engine, int64_t tokens);

}  // namespace ei
