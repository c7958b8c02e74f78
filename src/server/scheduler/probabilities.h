// Log-probabilities of tokens, from logits.
#pragma once

#include <span>

#include "server/scheduler/task.h"

namespace ei::server {

// The token's own, and those of the `count` likeliest, by the softmax of all logits.
void fill_probabilities(std::span<const float> logits, int count, TaskToken& token);

}  // namespace ei::server
