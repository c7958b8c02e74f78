// What perplexity found, as a line of JSON and as text.
#pragma once

#include <cstdint>
#include <string>

#include "cli/settings.h"
#include "engine/acted.h"
#include "engine/engine.h"
#include "eval/metrics.h"
#include "eval/position_buckets.h"

namespace ei::cli {

struct PerplexityScores {
  eval::Perplexity base;
  eval::Perplexity other;
  eval::Divergence divergence;
  eval::PositionBuckets by_position;
  Acted acted;  // the tested side
  int64_t chunks = 0;
  int64_t chunks_wanted = 0;

  bool interrupted() const { return chunks < chunks_wanted; }
};

// What a KL divergence is taken to.
std::string reference_settings(const Settings& settings);
// Tokens of a chunk in front of those that are scored.
int64_t unscored_tokens(const Settings& settings);

std::string perplexity_json(const Settings& settings, const Engine& engine, const PerplexityScores& scores);
std::string perplexity_text(const Settings& settings, const PerplexityScores& scores);

}  // namespace ei::cli
