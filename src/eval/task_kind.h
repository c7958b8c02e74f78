// The kinds of tasks, and where the lines of one stand in the text.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "eval/facts.h"

namespace ei::eval {

struct TaskKind {
  std::string_view name;
  bool one_fact;                                // a single statement holds the answer, so a depth can be asked for
  Facts (*make)(Random&, const FactsRequest&);  // null for quote, whose facts are sentences of the text
};
std::span<const TaskKind> task_kind_table();
// kUsage, naming all kinds, when there is none of that name.
Result<const TaskKind*> find_task_kind(std::string_view name);

// A depth for every line, ascending. A single gold line stands at `depth`, the others on the right side of it.
std::vector<double> draw_depths(Random& random, const Facts& facts, bool one_fact, double depth);

}  // namespace ei::eval
