// Log-probabilities of tokens, from logits.
#pragma once

#include <span>

#include "server/scheduler/task.h"
#include "text/sampler.h"

namespace ei::server {

// The token's own, and those of the `count` likeliest, by the softmax of all logits.
void fill_probabilities(std::span<const float> logits, int count, TaskToken& token);

// The same out of what the sampler drew the token from, behind its temperature and its cuts.
void fill_drawn_probabilities(const text::Sampler& sampler, TaskToken& token);

}  // namespace ei::server
