// What an evaluation found: the table on stdout, or JSON lines (one per question, then a summary).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/settings.h"
#include "engine/acted.h"
#include "engine/stats.h"
#include "eval/metrics.h"

namespace ei::cli {

struct TaskCount {
  int64_t right = 0;
  int64_t total = 0;
};

// One method over all texts.
struct EvalSide {
  std::string method;
  std::string method_options;
  std::map<std::string, TaskCount> tasks;
  eval::Perplexity prose;
  SessionStats stats;  // summed over the texts
  Acted acted;
  int64_t kv_bytes = 0;      // of the last text
  int64_t compressions = 0;  // of the last text
  int64_t contexts = 0;

  std::string name() const;  // "entropyinfer base-budget=512"
};

struct TestedSide : EvalSide {
  eval::Divergence divergence;  // from the reference, where there is one
};

struct EvalScores {
  std::vector<TestedSide> tested;     // the settings given, then those of --also
  std::optional<EvalSide> reference;  // --vs; none when it is the same
};

struct EvalItem {
  std::string task;
  std::string prediction;
  std::string answer;
  bool right = false;
  double depth = 0;  // of the fact in the text, 0 to 1
  double density = 1;
};

std::string item_json(const Settings& settings, const EvalSide& side, const EvalItem& item);
// One line per tested side.
std::string summary_json(const Settings& settings, const std::string& model, const EvalScores& scores);
std::string eval_table(const Settings& settings, const EvalScores& scores);

}  // namespace ei::cli
